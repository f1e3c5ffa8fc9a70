"""The host-wrapper boundary: what a wrapper does around its one launch, read from its code and seen in real calls."""

from pypto_pro.audit.evidence import WrapperRecord, record_wrapper
from pypto_pro.audit.recorder import DynamicRecord, audit_call
from pypto_pro.audit.report import Finding, Report, WrapperReport
from pypto_pro.audit.static import AuditUsageError, Options, audit, audit_source

__all__ = [
    "AuditUsageError",
    "DynamicRecord",
    "Finding",
    "Options",
    "Report",
    "WrapperRecord",
    "WrapperReport",
    "audit",
    "audit_call",
    "audit_source",
    "record_wrapper",
]
