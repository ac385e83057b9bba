//! Texts as both databases keep them.

use std::borrow::Cow;

/// A text without the character U+0000, which Postgres does not take: the replacement character stands for it.
pub(crate) fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}
