"""What is to be computed, as frozen values with identities; nothing here runs by itself."""
