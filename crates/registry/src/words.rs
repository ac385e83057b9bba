//! Splitting texts into the words that are searched.

/// The words of a text in lower case: split at everything but letters and digits, and between a
/// small and a capital letter; accents and a plural `s` are folded.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut before_small = false;
    for ch in text.chars() {
        if !ch.is_alphanumeric() {
            flush(&mut word, &mut out);
            before_small = false;
            continue;
        }
        if ch.is_uppercase() && before_small {
            flush(&mut word, &mut out);
        }
        before_small = ch.is_lowercase() || ch.is_numeric();
        word.extend(ch.to_lowercase().map(fold_accent));
    }
    flush(&mut word, &mut out);
    out.into_iter()
}

fn flush(word: &mut String, out: &mut Vec<String>) {
    if !word.is_empty() {
        out.push(singular(std::mem::take(word)));
    }
}

/// `orders` and `order` are the same word to somebody who searches; so are `boxes` and `box`.
fn singular(mut word: String) -> String {
    if word.len() > 4
        && (word.ends_with("xes") || word.ends_with("sses") || word.ends_with("ches") || word.ends_with("shes"))
    {
        word.truncate(word.len() - 2);
    } else if word.len() > 4 && word.ends_with("ies") {
        word.truncate(word.len() - 3);
        word.push('y');
    } else if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us") {
        word.pop();
    }
    word
}

/// The base letter of the accented Latin letters.
fn fold_accent(ch: char) -> char {
    match ch {
        'à'..='å' | 'ā' | 'ă' | 'ą' => 'a',
        'ç' | 'ć' | 'č' => 'c',
        'ď' | 'đ' => 'd',
        'è'..='ë' | 'ē' | 'ę' | 'ě' => 'e',
        'ì'..='ï' | 'ī' => 'i',
        'ł' => 'l',
        'ñ' | 'ń' | 'ň' => 'n',
        'ò'..='ö' | 'ø' | 'ō' | 'ő' => 'o',
        'ř' => 'r',
        'ś' | 'š' | 'ş' => 's',
        'ť' => 't',
        'ù'..='ü' | 'ū' | 'ů' | 'ű' => 'u',
        'ý' | 'ÿ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_names_and_sentences() {
        let check = |text: &str, expected: &[&str]| assert_eq!(words(text).collect::<Vec<_>>(), expected, "{text}");
        check("search_products", &["search", "product"]);
        check("listOpenOrders2", &["list", "open", "orders2"]);
        check(
            "Búsqueda de pedidos: categories, boxes & addresses",
            &["busqueda", "de", "pedido", "category", "box", "address"],
        );
        check("status of the bus class", &["status", "of", "the", "bus", "class"]);
        check("", &[]);
    }
}
