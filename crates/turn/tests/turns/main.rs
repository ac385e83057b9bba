//! Turns against a scripted model over the wires of real providers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod app;
mod engine;
mod rendering;
mod scenario;
mod upstream;

use std::path::Path;

use scenario::Scenario;
use scripted_model::Wire;

/// The wires, each with its name.
const WIRES: [(&str, Wire); 4] = [
    ("openai", Wire::OpenAiChat),
    ("openai-responses", Wire::OpenAiResponses),
    ("anthropic", Wire::Anthropic),
    ("gemini", Wire::Gemini),
];

/// Each file is a rule: what is given, and what comes of it. What is told on the first wire is a snapshot with the prompts;
/// on the others the same happens.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn scenarios() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/turns/scenarios");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let only = option_env!("TOOLCRIB_SCENARIO");
    files.retain(|file| only.is_none_or(|only| file.to_string_lossy().contains(only)));
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        let scenario: Scenario = serde_json::from_str(&text).unwrap_or_else(|error| unreachable!("{name}: {error}"));
        let wanted = |format: &str| scenario.only.as_ref().is_none_or(|only| only.iter().any(|known| known == format));
        let formats: Vec<&str> = WIRES.iter().map(|(format, _)| *format).filter(|format| wanted(format)).collect();
        let played = formats.iter().map(|format| scenario.run(format));
        let mut told = futures_util::future::join_all(played).await.into_iter();
        let Some(first) = told.next() else { unreachable!("{name} is for no wire") };
        let whole = format!("{}\n\n{}\n\n{}", scenario.about, first.happened, first.prompts);
        let mut settings = insta::Settings::clone_current();
        settings.set_omit_expression(true);
        settings.set_prepend_module_to_snapshot(false);
        let compare = std::panic::AssertUnwindSafe(|| {
            settings.bind(|| insta::assert_snapshot!(name.clone(), whole));
        });
        if std::panic::catch_unwind(compare).is_err() {
            wrong.push(name.clone());
        }
        for (format, told) in formats.iter().skip(1).zip(told) {
            if told.happened != first.happened {
                println!("{name} over {format}:\n{}\nand before:\n{}", told.happened, first.happened);
                wrong.push(format!("{name} over {format}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
