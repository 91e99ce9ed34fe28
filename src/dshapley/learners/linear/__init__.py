"""Ridge, linear regression and kernel ridge without retraining."""
