//! Who is logged in: the token in a cookie that scripts can't read, and what proves that a form is ours.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use http::header::COOKIE;
use sha2::Sha256;

/// The name of the cookie.
pub(crate) const NAME: &str = "toolcrib_studio";
/// How long a browser keeps it, in seconds (12 hours).
const KEPT: u32 = 12 * 3600;

/// A login. It holds nothing that the server keeps: a token that is revoked ends it.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) token: String,
}

impl Session {
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let (_, value) = pairs.find(|(name, _)| *name == NAME)?;
        let token = String::from_utf8(URL_SAFE_NO_PAD.decode(value).ok()?).ok()?;
        (!token.is_empty()).then_some(Self { token })
    }

    /// The header that begins the session in a browser.
    pub(crate) fn cookie(&self, https: bool) -> String {
        let value = URL_SAFE_NO_PAD.encode(&self.token);
        format!("{NAME}={value}; Path=/studio; HttpOnly; SameSite=Strict; Max-Age={KEPT}{}", secure(https))
    }

    /// The header that ends it.
    pub(crate) fn end(https: bool) -> String {
        format!("{NAME}=; Path=/studio; HttpOnly; SameSite=Strict; Max-Age=0{}", secure(https))
    }

    /// What each form of this session carries: only who knows the cookie can know it.
    pub(crate) fn form_key(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.mac().finalize().into_bytes())
    }

    /// Whether a form is one of this session's, in constant time.
    pub(crate) fn is_form_key(&self, text: &str) -> bool {
        URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| self.mac().verify_slice(&bytes).is_ok())
    }

    fn mac(&self) -> Hmac<Sha256> {
        // A key of any length is one.
        let Ok(mac) = Hmac::<Sha256>::new_from_slice(self.token.as_bytes()) else { unreachable!() };
        mac.chain_update(b"toolcrib studio form")
    }
}

fn secure(https: bool) -> &'static str {
    if https { "; Secure" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_read_back() {
        let session = Session { token: "tc_abc;=,".to_owned() };
        let mut headers = HeaderMap::new();
        let pair = session.cookie(true).split(';').next().unwrap().to_owned();
        headers.insert(COOKIE, format!("a=b; {pair}; c=d").parse().unwrap());
        assert_eq!(Session::of(&headers).unwrap().token, session.token);
        assert!(session.cookie(true).ends_with("; Secure") && !session.cookie(false).contains("Secure"));
    }

    #[test]
    fn a_form_is_of_one_session() {
        let (one, other) = (Session { token: "one".to_owned() }, Session { token: "other".to_owned() });
        assert!(one.is_form_key(&one.form_key()));
        assert!(!one.is_form_key(&other.form_key()) && !one.is_form_key("") && !one.is_form_key("%%"));
    }
}
