//! Links by which a person without a token decides about one approval: signed, good for a while, and of use once,
//! since an approval is decided once.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

/// What a link says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Link {
    /// The approval.
    pub(crate) approval: String,
    /// For whom it was made.
    pub(crate) whom: String,
    /// Until when it is good, in ms since 1970.
    pub(crate) expires_at: i64,
}

/// Why a link is not good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LinkFault {
    #[error("this link is not one of ours, or a part of it is missing; copy it whole")]
    Forged,
    #[error("this link is too old; ask for a new one")]
    Expired,
}

impl Link {
    /// The last part of the link's address.
    pub(crate) fn seal(&self, key: &SecretString) -> String {
        let told = format!("{}.{}.{}", self.approval, self.expires_at, URL_SAFE_NO_PAD.encode(&self.whom));
        let signature = URL_SAFE_NO_PAD.encode(mac(key, &told).finalize().into_bytes());
        format!("{told}.{signature}")
    }

    /// Reads the last part of a link's address.
    pub(crate) fn open(key: &SecretString, text: &str, now: i64) -> Result<Self, LinkFault> {
        let (told, signature) = text.rsplit_once('.').ok_or(LinkFault::Forged)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| LinkFault::Forged)?;
        // Compared in constant time.
        mac(key, told).verify_slice(&signature).map_err(|_| LinkFault::Forged)?;
        let mut parts = told.split('.');
        let (Some(approval), Some(expires_at), Some(whom), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(LinkFault::Forged);
        };
        let expires_at = expires_at.parse().map_err(|_| LinkFault::Forged)?;
        let whom = URL_SAFE_NO_PAD.decode(whom).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let link = Self { approval: approval.to_owned(), whom: whom.ok_or(LinkFault::Forged)?, expires_at };
        if now >= expires_at { Err(LinkFault::Expired) } else { Ok(link) }
    }
}

fn mac(key: &SecretString, told: &str) -> Hmac<Sha256> {
    // A key of HMAC may have any length.
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    let mut mac = Hmac::<Sha256>::new_from_slice(key.expose_secret().as_bytes()).expect("any key");
    mac.update(b"toolcrib approval link\0");
    mac.update(told.as_bytes());
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_good_for_what_it_was_made_for_and_no_longer() {
        let key = SecretString::from("key");
        let link = Link { approval: "a1".into(), whom: "ann.b@example.com".into(), expires_at: 1_000 };
        let sealed = link.seal(&key);
        assert_eq!(Link::open(&key, &sealed, 999), Ok(link.clone()));
        assert_eq!(Link::open(&key, &sealed, 1_000), Err(LinkFault::Expired));
        assert_eq!(Link::open(&"other".into(), &sealed, 1), Err(LinkFault::Forged));
        for tampered in
            [sealed.replace("a1", "a2"), sealed.replace("1000", "9000"), sealed[..10].to_owned(), String::new()]
        {
            assert_eq!(Link::open(&key, &tampered, 1), Err(LinkFault::Forged), "{tampered}");
        }
    }
}
