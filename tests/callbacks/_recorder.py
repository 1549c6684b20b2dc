"""A callback that records the tasks of a fit."""


class Recorder:
    """Looks at the estimator after each task; stops the fit, or interrupts it, after the pass of this number."""

    def __init__(self, look, stop_after=None, interrupt_after=None):
        self.look, self.stop_after, self.interrupt_after = look, stop_after, interrupt_after
        self.begun, self.ended, self.found, self.torn_down = [], [], [], 0

    def setup(self, estimator, context):
        assert context.max_subtasks == estimator.max_iter

    def teardown(self, estimator, context):
        self.torn_down += 1

    def on_fit_task_begin(self, estimator, context, *, X=None):
        self.begun.append((context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        self.ended.append((context.task_name, context.task_id))
        assert fitted_estimator is not estimator
        self.found.append(self.look(fitted_estimator, X))
        is_pass = context.task_name == "pass"
        if is_pass and context.task_id + 1 == self.interrupt_after:
            raise KeyboardInterrupt
        return is_pass and context.task_id + 1 == self.stop_after
