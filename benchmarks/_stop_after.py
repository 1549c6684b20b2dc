"""Fits within a time budget."""


class StopAfter:
    """Callback that ends a fit before a pass that would exceed `seconds` by this clock."""

    def __init__(self, seconds, clock):
        self.seconds = seconds
        self.clock = clock

    def setup(self, estimator, context):
        self.start = self.last = self.clock()

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        now = self.clock()
        self.last, duration = now, now - self.last
        return now - self.start + duration > self.seconds
