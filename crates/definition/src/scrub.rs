//! Finding secrets in a text in whatever way their characters are escaped, and masking them there.
//!
//! The text is decoded step by step (JSON escapes, JSON escapes inside them, percent-encoding) while each
//! decoded byte remembers where it came from. A secret that is found in a decoded text is masked in the
//! text as it came, which need not be valid JSON or a valid URL.

use std::borrow::Cow;
use std::ops::Range;

/// A decoded byte, and the place in the first text that it came from.
#[derive(Clone, Copy)]
struct Byte {
    value: u8,
    from: usize,
    to: usize,
}

/// How often JSON escapes are decoded: a document inside a string inside a string.
const JSON_LEVELS: usize = 3;

/// The text with `mask` in the place of every one of `secrets`.
pub(crate) fn mask<'t>(text: &'t str, secrets: &[String], mask: &str) -> Cow<'t, str> {
    if secrets.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut places = Vec::new();
    for secret in secrets {
        places.extend(text.match_indices(secret.as_str()).map(|(at, found)| at..at + found.len()));
    }
    let bytes = || text.bytes().enumerate().map(|(i, value)| Byte { value, from: i, to: i + 1 }).collect::<Vec<_>>();
    if text.contains('\\') {
        let mut decoded = bytes();
        for _ in 0..JSON_LEVELS {
            decoded = decode(&decoded, json_escape);
            find(&decoded, secrets, &mut places);
        }
    }
    if text.contains('%') {
        find(&decode(&bytes(), percent_escape), secrets, &mut places);
    }
    if places.is_empty() {
        return Cow::Borrowed(text);
    }
    places.sort_by_key(|place| (place.start, std::cmp::Reverse(place.end)));
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for place in places {
        // Places that overlap are one: a secret may begin another.
        if place.start >= done {
            out.push_str(text.get(done..place.start).unwrap_or_default());
            out.push_str(mask);
        }
        done = done.max(place.end);
    }
    out.push_str(text.get(done..).unwrap_or_default());
    Cow::Owned(out)
}

fn find(decoded: &[Byte], secrets: &[String], places: &mut Vec<Range<usize>>) {
    for secret in secrets.iter().map(String::as_bytes) {
        let same = |window: &[Byte]| window.iter().map(|byte| byte.value).eq(secret.iter().copied());
        let found = decoded.windows(secret.len()).filter(|window| window[0].value == secret[0] && same(window));
        places.extend(found.map(|window| window[0].from..window[window.len() - 1].to));
    }
}

/// Decodes what `escape` finds at the beginning of the rest: the bytes it stands for, and its length.
fn decode(bytes: &[Byte], escape: fn(&[Byte]) -> Option<(String, usize)>) -> Vec<Byte> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match escape(&bytes[at..]) {
            Some((text, length)) => {
                let (from, to) = (bytes[at].from, bytes[at + length - 1].to);
                out.extend(text.bytes().map(|value| Byte { value, from, to }));
                at += length;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

fn json_escape(bytes: &[Byte]) -> Option<(String, usize)> {
    if bytes[0].value != b'\\' {
        return None;
    }
    let plain = |ch: char| Some((ch.to_string(), 2));
    match bytes.get(1)?.value {
        b'n' => plain('\n'),
        b't' => plain('\t'),
        b'r' => plain('\r'),
        b'b' => plain('\u{8}'),
        b'f' => plain('\u{c}'),
        b'u' => {
            let high = hex(bytes.get(2..6)?)?;
            if let Some(ch) = char::from_u32(high) {
                return Some((ch.to_string(), 6));
            }
            let second = bytes.get(6..8)?;
            let low = if second[0].value == b'\\' && second[1].value == b'u' {
                hex(bytes.get(8..12)?)?
            } else {
                return None;
            };
            let code = 0x10000 + ((high.checked_sub(0xd800)?) << 10) + low.checked_sub(0xdc00)?;
            char::from_u32(code).map(|ch| (ch.to_string(), 12))
        }
        value @ (b'"' | b'\\' | b'/' | b'\'') => plain(char::from(value)),
        _ => None,
    }
}

fn percent_escape(bytes: &[Byte]) -> Option<(String, usize)> {
    if bytes[0].value != b'%' {
        return None;
    }
    let value = hex(bytes.get(1..3)?)?;
    // Bytes beyond ASCII are put together by the comparison, which is of bytes as well.
    let ascii = u8::try_from(value).ok().filter(u8::is_ascii)?;
    Some((char::from(ascii).to_string(), 3))
}

fn hex(digits: &[Byte]) -> Option<u32> {
    digits.iter().try_fold(0, |sum, byte| Some(sum * 16 + char::from(byte.value).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_found() {
        let secrets = [
            "sk-live-Ab+/9xyz==".to_owned(),
            "pfx-secret".to_owned(),
            "pfx-secret-TAIL12345".to_owned(),
            "q\"uo\\te".to_owned(),
        ];
        let check = |text: &str, expected: &str| assert_eq!(mask(text, &secrets, "***"), expected, "{text}");
        check("nothing here", "nothing here");
        check("a sk-live-Ab+/9xyz== b", "a *** b");
        check(r#"{"t":"sk-live-Ab+\/9xyz=="}"#, r#"{"t":"***"}"#);
        check("data: {\"t\":\"sk-live-Ab+\\/9xyz\\u003d\\u003D\"} oops", "data: {\"t\":\"***\"} oops");
        check(r"\u0073\u006b-live-Ab\u002b/9xyz==", "***");
        check(r"pfx-secret\u002dTAIL12345", "***");
        check("pfx-secret-TAIL12345 pfx-secret", "*** ***");
        check("/x?t=sk-live-Ab%2b%2F9xyz%3D=&u=1", "/x?t=***&u=1");
        check(r#"{"a":"{\"b\":\"q\\\"uo\\\\te\"}"}"#, r#"{"a":"{\"b\":\"***\"}"}"#);
        check("é\\n% sk-live-Ab+/9xyz==é", "é\\n% ***é");
    }
}
