"""The tasks that mixers are compared on: name -> task. A new task is a file and an entry."""

from fedscan.experiments.sessa.example import Task
from fedscan.experiments.sessa.task_mqar import MQAR
from fedscan.experiments.sessa.task_recall import RECALL
from fedscan.experiments.sessa.task_soup import SOUP
from fedscan.experiments.sessa.task_stories import STORIES

TASKS: dict[str, Task] = {"soup": SOUP, "mqar": MQAR, "stories": STORIES, "recall": RECALL}
