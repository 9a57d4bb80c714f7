"""The compiled whole: operators in dependency order, their states, and its cut into stages."""
