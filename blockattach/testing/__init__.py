"""What tests of this project and of its consumers share."""
