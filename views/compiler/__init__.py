"""The compiler from plan to circuit: operators for each node, and states that several of them share."""
