"""tombola finds, verifies, shares and deploys lottery tickets in pre-trained models."""

__version__ = "0.1.0"
