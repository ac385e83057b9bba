//! Small charts, drawn on the server.

use maud::{Markup, html};

/// The height of a chart, in its own units.
const HEIGHT: u64 = 40;
/// The width of a bar with its gap.
const STEP: usize = 8;

/// A bar for each number, with what the whole says for those who don't see it.
pub(crate) fn bars(numbers: &[u64], says: &str) -> Markup {
    let most = numbers.iter().copied().max().unwrap_or(0).max(1);
    let width = numbers.len() * STEP;
    html! {
        svg.bars role="img" aria-label=(says) viewBox={ "0 0 " (width) " " (HEIGHT) } preserveAspectRatio="none" {
            @for (place, number) in numbers.iter().enumerate() {
                // What is not nothing is seen.
                @let height = if *number == 0 { 0 } else { (number * HEIGHT / most).max(2) };
                rect x=(place * STEP) y=(HEIGHT - height) width=(STEP - 1) height=(height) {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_nothing_is_seen() {
        let markup = bars(&[0, 1, 1000], "calls").into_string();
        assert!(markup.contains(r#"height="0""#) && markup.contains(r#"height="2""#), "{markup}");
        assert!(markup.contains(r#"height="40""#) && markup.contains(r#"aria-label="calls""#));
        assert!(!bars(&[], "").into_string().contains("rect"));
    }
}
