//! Skills on disk: a folder of folders, each with a `SKILL.md`.

use std::path::{Path, PathBuf};

use toolcrib_definition::Problems;

use crate::skill::{MAX_DOCUMENT, Skill};

/// The name of the file.
const FILE: &str = "SKILL.md";

/// A skill on disk that was left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RootError {
    /// The operating system.
    #[error("{path} can't be read: {reason}")]
    Unreadable {
        /// Where.
        path: PathBuf,
        /// What the operating system says.
        reason: String,
    },
    /// A folder that holds no `SKILL.md`.
    #[error("{path} holds no SKILL.md, to the letter; a folder that is no skill does not belong here")]
    NoSkill {
        /// Where.
        path: PathBuf,
    },
    /// The text.
    #[error("{path}: {problems}")]
    Invalid {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        problems: Problems,
    },
}

/// Reads a root: `ROOT/<name>/SKILL.md`, by name. One that can't be read hides no other. Folders whose name begins with a
/// dot are passed over; what lies beside the folders is not looked at.
pub fn read_root(root: &Path) -> (Vec<Skill>, Vec<RootError>) {
    let (mut skills, mut errors) = (Vec::new(), Vec::new());
    let unreadable =
        |path: &Path, error: std::io::Error| RootError::Unreadable { path: path.to_owned(), reason: error.to_string() };
    let mut folders = match std::fs::read_dir(root) {
        Ok(entries) => {
            let hidden = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
            let paths = entries.flatten().map(|entry| entry.path());
            paths.filter(|path| path.is_dir() && !hidden(path)).collect::<Vec<_>>()
        }
        Err(error) => return (skills, vec![unreadable(root, error)]),
    };
    folders.sort();
    for folder in folders {
        let path = folder.join(FILE);
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                errors.push(RootError::NoSkill { path: folder });
                continue;
            }
            Err(error) => {
                errors.push(unreadable(&path, error));
                continue;
            }
            // A pipe or a device is not even opened.
            Ok(metadata) if !metadata.is_file() => {
                errors.push(RootError::Unreadable { path, reason: "it is no file".to_owned() });
                continue;
            }
            // A file that is far too long is not even read.
            Ok(metadata) if metadata.len() > 4 * MAX_DOCUMENT as u64 => {
                errors.push(RootError::Unreadable { path, reason: "it is far too long for a SKILL.md".to_owned() });
                continue;
            }
            Ok(_) => {}
        }
        match std::fs::read(&path) {
            Ok(bytes) => match Skill::from_markdown(&name, &String::from_utf8_lossy(&bytes)) {
                Ok(skill) => skills.push(skill),
                Err(problems) => errors.push(RootError::Invalid { path, problems }),
            },
            Err(error) => errors.push(unreadable(&path, error)),
        }
    }
    (skills, errors)
}
