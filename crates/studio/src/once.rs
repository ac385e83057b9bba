//! Forms that are taken once, however often a browser sends them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

/// Keys that are remembered.
const REMEMBERED: usize = 10_000;

/// A key for a form, unlike that of any other form.
pub(crate) fn new_key() -> String {
    static FORMS: AtomicU64 = AtomicU64::new(0);
    let at = Timestamp::now().as_nanosecond();
    format!("studio-{at:x}-{:x}-{:x}", std::process::id(), FORMS.fetch_add(1, Ordering::Relaxed))
}

/// The keys of the forms that were taken last in this process.
#[derive(Debug, Default)]
pub(crate) struct Once(Mutex<VecDeque<String>>);

impl Once {
    /// Whether a form of this key was not taken before. A form without a key is taken.
    pub(crate) fn take(&self, key: &str) -> bool {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if key.is_empty() {
            return true;
        }
        if taken.iter().any(|known| known == key) {
            return false;
        }
        taken.push_back(key.chars().take(200).collect());
        if taken.len() > REMEMBERED {
            taken.pop_front();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_taken_once() {
        let once = Once::default();
        let (one, other) = (new_key(), new_key());
        assert_eq!([once.take(&one), once.take(&other), once.take(&one)], [true, true, false]);
        assert_eq!([once.take(""), once.take("")], [true, true]);
    }
}
