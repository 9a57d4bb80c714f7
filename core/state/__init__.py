"""What stays: immutable sorted runs that add up, timers, and the ledger of refused rows."""
