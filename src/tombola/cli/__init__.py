"""The command line: reads options, calls the library, prints."""
