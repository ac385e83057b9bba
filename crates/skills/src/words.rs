//! Text as the words a person would say are in it: without case, accents and signs.

use unicode_normalization::UnicodeNormalization;

/// The words of a text, folded, with one space between them.
///
/// Case and accents are gone (`Presénte` is `presente`), signs part words (`l'avis` is `l avis`), and each character of a
/// script that writes no spaces is a word of its own, so that a phrase is found inside a sentence.
///
/// ```
/// assert_eq!(toolcrib_skills::fold("  Ein Straßen-CAFÉ! 退款"), "ein strassen cafe 退 款");
/// ```
pub fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut in_word = false;
    // Taken apart to lose the accents, and put together again for scripts whose letters would fall into pieces.
    for c in text.nfkd().filter(|c| !is_accent(*c)).nfc().flat_map(char::to_lowercase) {
        let alone = writes_no_spaces(c);
        if !c.is_alphanumeric() && !is_mark(c) {
            in_word = false;
            continue;
        }
        if (alone || !in_word) && !folded.is_empty() {
            folded.push(' ');
        }
        match letters_of(c) {
            Some(letters) => folded.push_str(letters),
            None => folded.push(c),
        }
        in_word = !alone;
    }
    folded
}

/// A sign above or below a letter that people leave out when they type in a hurry.
fn is_accent(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}'
        | '\u{fe20}'..='\u{fe2f}'
        // Hebrew and Arabic vowel points.
        | '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}'..='\u{5c2}' | '\u{5c4}'..='\u{5c5}' | '\u{64b}'..='\u{65f}' | '\u{670}')
}

/// A sign that is a part of its word, as the vowels of Indian scripts are.
fn is_mark(c: char) -> bool {
    unicode_normalization::char::is_combining_mark(c)
}

fn writes_no_spaces(c: char) -> bool {
    matches!(c,
        '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{323af}' | '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}')
}

/// Letters that no decomposition takes apart, as they are typed without them.
fn letters_of(c: char) -> Option<&'static str> {
    Some(match c {
        'ß' => "ss",
        'æ' => "ae",
        'œ' => "oe",
        'ø' => "o",
        'đ' | 'ð' => "d",
        'ł' => "l",
        'ı' => "i",
        'þ' => "th",
        _ => return None,
    })
}
