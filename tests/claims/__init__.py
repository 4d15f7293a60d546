"""What the code says about the papers, and `docs/papers-and-errata.md` from it.

    PYTHONPATH=tests python -m claims            # write the tables of the page anew

A docstring claims a result as `(Theorem 5; paper)`, with one of the words of `citations.STATUSES` and, if there is more to say,
a comma and the rest: `(Definitions 7, 8 and 16; corrected, S1)`. The paper is the one that its folder is about, or
`(Theorem 5 of the discounted paper; paper)`. A test holds a result if its name, its docstring or its comments cite it.
"""
