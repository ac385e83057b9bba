//! Texts of others as a person can read them.

use std::borrow::Cow;

/// A text with everything written out that can't be seen or that turns the direction of reading: control characters but
/// line breaks and tabs, the bidirectional controls, and the code points that Unicode ignores by default. What is approved,
/// or judged by eye, is shown through this.
///
/// ```
/// use toolcrib_definition::visible;
/// assert_eq!(visible("plain\ttext\n"), "plain\ttext\n");
/// assert_eq!(visible("user\u{202e}gpj.exe"), "user[U+202E]gpj.exe");
/// assert_eq!(visible("a\u{0}b"), "a␀b");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for ch in text.chars() {
        match ch {
            '\u{7f}' => out.push('\u{2421}'),
            '\u{0}'..='\u{1f}' if is_hidden(ch) => {
                out.push(char::from_u32(0x2400 + u32::from(ch)).unwrap_or('\u{fffd}'));
            }
            ch if is_hidden(ch) => out.push_str(&format!("[U+{:04X}]", u32::from(ch))),
            ch => out.push(ch),
        }
    }
    Cow::Owned(out)
}

/// Control characters (Cc), bidirectional controls, line and paragraph separators, and what is ignored by default
/// (`Default_Ignorable_Code_Point` of Unicode 16, with its reserved ranges).
fn is_hidden(ch: char) -> bool {
    if ch.is_ascii() {
        return ch.is_control() && !matches!(ch, '\n' | '\t');
    }
    matches!(
        ch,
        '\u{80}'..='\u{9f}'
            | '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}
