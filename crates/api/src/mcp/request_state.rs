//! What a client hands back with its answers: the answers of earlier rounds, bound to the call they belong
//! to and signed, so that nobody can change them or use them elsewhere.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// How long a state is good, in ms.
const LIFE: i64 = 60 * 60 * 1000;

/// Signs states with a key of this process. After a restart a client asks anew.
pub(crate) struct Signer {
    key: [u8; 32],
}

/// What a state says.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    /// The call: agent, caller, tool and arguments, hashed.
    call: String,
    /// When it is no longer good, in ms since 1970.
    until: i64,
    /// The round it belongs to.
    round: u32,
    answers: Map<String, Value>,
}

impl Default for Signer {
    fn default() -> Self {
        use toolcrib_store::{OsRandomness, Randomness};
        let mut key = [0; 32];
        for part in key.chunks_exact_mut(16) {
            let mut bytes = [0; 16];
            OsRandomness.fill(&mut bytes);
            part.copy_from_slice(&bytes);
        }
        Self { key }
    }
}

impl Signer {
    /// Signs the answers so far of a call.
    pub(super) fn seal(&self, call: &str, round: u32, answers: &Map<String, Value>, now: i64) -> String {
        let state = State { call: call.to_owned(), until: now + LIFE, round, answers: answers.clone() };
        let body = serde_json::to_vec(&state).unwrap_or_default();
        format!("{}.{}", URL_SAFE_NO_PAD.encode(&body), URL_SAFE_NO_PAD.encode(self.mac(&body).finalize().into_bytes()))
    }

    /// The round and the answers of a state, or none when it is not ours, not of this call, or too old.
    pub(super) fn open(&self, text: &str, call: &str, now: i64) -> Option<(u32, Map<String, Value>)> {
        let (body, mac) = text.split_once('.')?;
        let body = URL_SAFE_NO_PAD.decode(body).ok()?;
        self.mac(&body).verify_slice(&URL_SAFE_NO_PAD.decode(mac).ok()?).ok()?;
        let state: State = serde_json::from_slice(&body).ok()?;
        (state.call == call && state.until > now).then_some((state.round, state.answers))
    }

    #[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
    fn mac(&self, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("a key of 32 bytes");
        mac.update(body);
        mac
    }
}

/// The hash of a call: whose, and what.
pub(super) fn call_hash(parts: [&str; 3], arguments: &Value) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.update(arguments.to_string().as_bytes());
    URL_SAFE_NO_PAD.encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_good_for_its_call_and_its_time_only() {
        let signer = Signer::default();
        let answers = Map::from_iter([("a".to_owned(), Value::from(1))]);
        let state = signer.seal("call", 1, &answers, 1_000);
        assert_eq!(signer.open(&state, "call", 2_000), Some((1, answers)));
        assert_eq!(signer.open(&state, "other", 2_000), None);
        assert_eq!(signer.open(&state, "call", 1_000 + LIFE), None);
        assert_eq!(signer.open(&format!("{state}-TAMPERED"), "call", 2_000), None);
        assert_eq!(Signer::default().open(&state, "call", 2_000), None);
        assert_ne!(call_hash(["ab", "c", ""], &Value::Null), call_hash(["a", "bc", ""], &Value::Null));
    }
}
