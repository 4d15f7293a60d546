"""The facts of a policy that a ledger is begun with, in a versioned form, and which of them may change later.

    population, promise, clock     what is promised, about whom, in which steps
    stream:NAME                    what is published: source, statistic, groups, steps, share

Facts are of three kinds.

- What the promise rests on: all that is written here. Another value is refused, in words. Which column is `person` decides who
  *one* person is, and with it the sensitivity: pointed from households to meters, a household would be protected as if each of
  its meters were a person; so the content of the table that says whose each meter is (`units`) is held to, too. Of CSV without a
  header, `columns` decides which field that is. `time`, `zone`, `epoch` and `time_format` decide which step a reading counts in:
  changed, what was published about once would be published about again, at a time that the account takes for another. `value`,
  `group`, clips, folds, sizes and tables decide what a person counts as.
- Where things are: `files`, `format` and `table` of a source, paths of outputs, of the ledger and of public tables (whose content
  *is* a fact, by its digest), and the columns of these tables. Which two people a table or file tells apart depends on the person
  column alone, and however many rows it has, engines hold one person to the clip: so no bound depends on where the rows lie. They
  may change freely, and are not written here.
- Post-processing: it sees published values alone, and costs no privacy. A new chain begins, fresh, at the next step; which held
  from which step on is kept with the ledger's states, and `halflife verify` replays each step with the chain that held then.

Each part has a version of its own and leaves out what is at its default, so that an optional key that is added later changes no
ledger that exists. Facts are compared by what they mean: quantities are worked out (1 kWh is 1000 Wh), defaults filled in.

    writing    a policy's facts             keys     what each is called, and its default
    changes    what a policy changes        shapes   what a stream's entries hold
    amended    what amendments have changed, from which step on
    amending   what an amendment may change
"""

from halflife.policy.facts.amended import Amendment, find_worth, follow_amendments, list_facts, read_amendments
from halflife.policy.facts.changes import find_change, follow_ledger, list_changes, say_place
from halflife.policy.facts.shapes import Shape, stream_shape
from halflife.policy.facts.writing import ledger_facts

__all__ = [
    "Amendment",
    "Shape",
    "find_change",
    "find_worth",
    "follow_amendments",
    "follow_ledger",
    "ledger_facts",
    "list_changes",
    "list_facts",
    "read_amendments",
    "say_place",
    "stream_shape",
]
