"""What is wrong with a table, and what acting on it does: from the values of its rows.

- `copies`: exact and near copies, and copies whose labels contradict each other.
- `rarity`: how far each row is from the others.
- `regions`: parts of the table, by conditions on columns, that differ from the rest.
- `audited`: `audit`, the front door, and the `Audit` that it returns.
- `audit_page`, `audit_text`: the audit as a page, and in the terminal.
"""

from dshapley.auditing.audit_page import audit_page
from dshapley.auditing.audited import Audit, audit, audited

__all__ = ["Audit", "audit", "audit_page", "audited"]
