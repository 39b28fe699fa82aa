//! The stacks of an operator among those of others in the same cluster: the ones whose `spec.operatorClass` is its own.

use kube::runtime::{
    reflector::{self, ObjectRef, Store, store::Writer},
    watcher::Event,
};

use super::context::GuardedStack;

/// Divides the stacks of a watch between this operator and others.
pub(super) struct Division {
    class: String,
    known: Store<GuardedStack>,
    others: Writer<GuardedStack>,
}

impl Division {
    /// Returns the division for the operator of a class, and the stacks of other classes.
    pub(super) fn new(class: &str) -> (Self, Store<GuardedStack>) {
        let (known, others) = reflector::store();
        let division = Self {
            class: class.to_owned(),
            known: known.clone(),
            others,
        };
        (division, known)
    }

    /// Returns the meaning of an event for this operator's own stacks. A stack that passes to another class is gone for it,
    /// as if it were deleted; nothing deletes its objects.
    pub(super) fn own(&mut self, event: Event<GuardedStack>) -> Option<Event<GuardedStack>> {
        match event {
            Event::Apply(stack) if self.is_of_another(&stack) => {
                self.others
                    .apply_watcher_event(&Event::Apply(stack.clone()));
                Some(Event::Delete(stack))
            }
            Event::InitApply(stack) if self.is_of_another(&stack) => {
                self.others.apply_watcher_event(&Event::InitApply(stack));
                None
            }
            Event::Apply(stack) => {
                self.take(&stack);
                Some(Event::Apply(stack))
            }
            Event::Delete(stack) => {
                self.take(&stack);
                Some(Event::Delete(stack))
            }
            Event::InitApply(stack) => Some(Event::InitApply(stack)),
            Event::Init => {
                self.others.apply_watcher_event(&Event::Init);
                Some(Event::Init)
            }
            Event::InitDone => {
                self.others.apply_watcher_event(&Event::InitDone);
                Some(Event::InitDone)
            }
        }
    }

    /// Takes a stack from those of other classes, if it is one of them.
    fn take(&mut self, stack: &GuardedStack) {
        if self.known.get(&ObjectRef::from_obj(stack)).is_some() {
            self.others
                .apply_watcher_event(&Event::Delete(stack.clone()));
        }
    }

    /// Returns true when another operator reconciles a stack. The class of one that does not parse is not known here.
    fn is_of_another(&self, stack: &GuardedStack) -> bool {
        let stack = stack.0.as_ref();
        stack.is_ok_and(|stack| {
            stack.spec.operator_class.as_deref().unwrap_or_default() != self.class
        })
    }
}
