"""The host-wrapper boundary: what a wrapper does around its one kernel launch, audited without running it and while
it runs.
"""

from pypto_pro.audit.report import Finding, Report, WrapperReport
from pypto_pro.audit.static import AuditUsageError, Options, audit, audit_source

__all__ = ["AuditUsageError", "Finding", "Options", "Report", "WrapperReport", "audit", "audit_source"]
