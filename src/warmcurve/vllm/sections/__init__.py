"""The review of vLLM's configuration, class by class, for every supported release."""

from typing import Final

from warmcurve.vllm.review import Section
from warmcurve.vllm.sections.kernels import KERNELS
from warmcurve.vllm.sections.model import MODEL
from warmcurve.vllm.sections.runtime import RUNTIME

SECTIONS: Final[dict[str, Section]] = {section.name: section for section in (*RUNTIME, *MODEL, *KERNELS)}
"""By the name of the configuration's class, so that a target and its drafter share one review."""
