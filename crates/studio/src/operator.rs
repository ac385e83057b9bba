//! Who is logged in.

use crate::api::Caller;

/// Somebody who is logged in, and what they may do.
#[derive(Clone)]
pub(crate) struct Operator {
    pub(crate) api: Caller,
    /// The id of their token.
    pub(crate) token_id: String,
    pub(crate) name: String,
    pub(crate) role: String,
    pub(crate) form_key: String,
    /// Where they are, for the menu.
    pub(crate) path: String,
}

impl Operator {
    /// Whether they may do everything.
    pub(crate) fn is_admin(&self) -> bool {
        self.role == "admin"
    }

    /// Whether they may change the catalog: the API decides, and this only hides what it would refuse.
    pub(crate) fn may_write(&self) -> bool {
        matches!(self.role.as_str(), "admin" | "operator")
    }
}
