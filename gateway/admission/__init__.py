"""Decides which rows go to the models now, which wait, and which requests are refused
at once.
"""

from gateway.admission.control import Admission, Ticket
from gateway.admission.loop_queue import LoopQueue

__all__ = ["Admission", "LoopQueue", "Ticket"]
