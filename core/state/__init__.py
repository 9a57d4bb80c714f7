"""State that outlives an epoch: immutable sorted runs that add up, timers, and the ledger of refused rows."""
