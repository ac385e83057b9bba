//! The example runs, and prints what its readers expect.

use std::process::Command;

#[test]
fn the_example_runs() {
    let output = Command::new(env!("CARGO_BIN_EXE_embedding")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = "21.5 -> ok {\"fahrenheit\":70.7}\n\
                    \"-40\" -> ok {\"fahrenheit\":-40.0}\n\
                    -300 -> error {\"error\":\"nothing is colder than -273.15 °C\"}\n\
                    \"warm\" -> error {\"error\":\"invalid arguments: celsius: expected number, got a string\"}\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
