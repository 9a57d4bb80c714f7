"""A program with an operator of every kind, and a history that makes each of them work."""

import polars as pl

from strategies import Case, Program

A = {"k": pl.Int64(), "x": pl.Int64()}
B = {"k": pl.Int64(), "y": pl.Float64()}
EVERY_OPERATOR = Case(
    Program(
        {"a": A, "b": B},
        (
            "v1 = a.filter(pl.col('x') != 0).select('k', x=pl.col('x') + 1)",
            "v2 = a.join(b, on='k', how='full')",
            "v3 = a.join(b, on='k', how='anti', nulls_equal=True)",
            "v4 = a.unique().concat(a).minus(v3)",
            "v5 = a.group_by('k').agg(n=pl.len(), u=pl.col('x').min(), d=pl.col('x').n_unique(), m=pl.col('x').median())",
            "v6 = v5.group_by('n').agg(pl.col('u').sum()).join(v5, on='n')",
            "v7 = a.group_by('k').top_k(1, by='x')",
            "v8 = b.group_by().agg(pl.col('y').sum())",
            "v9 = a.map_batches(lambda rows: rows).bottom_k(2, by='k')",
        ),
    ),
    [
        {"a": [((1, 1), 1), ((1, 2), 2), ((2, 5), 1)], "b": [((1, 0.5), 1), ((3, 1.5), 1)]},
        # Also a retraction of what is not there, for the ledger.
        {"a": [((1, 1), -1), ((3, 3), 1), ((9, 9), -1)], "b": [((1, 0.5), -1), ((2, 2.5), 1)]},
        {},
        {"a": [((1, 2), -2), ((2, 5), -1), ((3, 3), -1)], "b": [((3, 1.5), -1), ((2, 2.5), -1)]},
        {"a": [((4, 7), 1)], "b": [((4, -0.0), 2)]},
    ],
)
