//! Skills, and packs of an agent with what is its own.

use toolcrib_store::{Expect, PackPart, PackRows, Revision, SHARED, SkillWrite, WriteKind};

use crate::databases::{Opened, on_every_database};
use crate::tool;

fn skill(scope: &str, name: &str, text: &str) -> SkillWrite {
    SkillWrite { scope: scope.to_owned(), name: name.to_owned(), document: text.to_owned() }
}

/// Scope, name and text of every skill.
async fn skills(opened: &Opened) -> Vec<(String, String, Option<String>)> {
    let rows = opened.store.skills_changed(Revision(0), Revision(i64::MAX)).await.unwrap();
    let mut rows: Vec<_> =
        rows.into_iter().map(Result::unwrap).map(|row| (row.scope, row.name, row.document)).collect();
    rows.sort();
    rows
}

on_every_database! {
    async fn skills_have_versions_and_scopes(opened: Opened) {
        let store = &opened.store;
        let first = store.put_skill(&skill(SHARED, "refunds", "one"), Expect::Absent, "ann").await.unwrap();
        assert_eq!(first.kind, WriteKind::Created);
        store.put_skill(&skill("clerk", "refunds", "own"), Expect::Absent, "ann").await.unwrap();
        let same = store.put_skill(&skill(SHARED, "refunds", "one"), Expect::Anything, "ann").await.unwrap();
        assert_eq!((same.kind, same.revision), (WriteKind::Unchanged, first.revision));
        store.put_skill(&skill(SHARED, "refunds", "two"), Expect::Revision(first.revision), "bob").await.unwrap();
        let stale = store.put_skill(&skill(SHARED, "refunds", "x"), Expect::Revision(first.revision), "bob").await;
        assert_eq!(stale.unwrap_err().code(), "store.stale_revision");
        let versions = store.skill_versions(SHARED, "refunds").await.unwrap();
        let told: Vec<_> = versions.iter().map(|v| (v.version, v.document.as_str(), v.actor.as_str())).collect();
        assert_eq!(told, [(2, "two", "bob"), (1, "one", "ann")]);
        assert!(store.delete_skill(SHARED, "refunds", Expect::Anything, "ann").await.unwrap().is_some());
        assert_eq!(store.delete_skill(SHARED, "refunds", Expect::Anything, "ann").await.unwrap(), None);
        let left = skills(&opened).await;
        assert_eq!(left, [
            (String::new(), "refunds".to_owned(), None),
            ("clerk".to_owned(), "refunds".to_owned(), Some("own".to_owned())),
        ]);
    }

    async fn a_disk_root_gives_way_to_people(opened: Opened) {
        let store = &opened.store;
        let disk = [skill(SHARED, "a", "1"), skill(SHARED, "b", "1"), skill(SHARED, "c", "1")];
        assert_eq!(store.seed_skills(&disk, "disk:x").await.unwrap(), 3);
        assert_eq!(store.seed_skills(&disk, "disk:x").await.unwrap(), 0);
        store.put_skill(&skill(SHARED, "a", "mine"), Expect::Anything, "ann").await.unwrap();
        store.delete_skill(SHARED, "b", Expect::Anything, "ann").await.unwrap();
        let later = [skill(SHARED, "a", "2"), skill(SHARED, "b", "2"), skill(SHARED, "c", "2")];
        assert_eq!(store.seed_skills(&later, "disk:x").await.unwrap(), 1);
        let texts: Vec<_> = skills(&opened).await.into_iter().map(|(_, _, text)| text).collect();
        assert_eq!(texts, [Some("mine".to_owned()), None, Some("2".to_owned())]);
    }

    async fn a_pack_is_whole_and_what_left_it_is_gone(opened: Opened) {
        let store = &opened.store;
        let mut pack = PackRows {
            agent: "clerk".to_owned(),
            profile: "{\"a\": 1}".to_owned(),
            tools: vec![tool("t_1", 1), tool("t_2", 1)],
            skills: vec![skill("clerk", "one", "1"), skill("clerk", "two", "1")],
        };
        let dry = store.apply_pack(&pack, Expect::Anything, "ann", true).await.unwrap();
        assert_eq!((dry.changes.len(), dry.revision), (5, None));
        assert_eq!(store.revision().await.unwrap(), Revision(0), "nothing was written");
        store.apply_pack(&pack, Expect::Anything, "ann", false).await.unwrap();
        let revision = store.revision().await.unwrap();
        let again = store.apply_pack(&pack, Expect::Anything, "ann", false).await.unwrap();
        assert!(again.changes.iter().all(|change| change.kind == Some(WriteKind::Unchanged)));
        assert_eq!(store.revision().await.unwrap(), revision, "applied twice, it changes nothing");

        pack.skills = vec![skill("clerk", "two", "2")];
        let applied = store.apply_pack(&pack, Expect::Anything, "ann", false).await.unwrap();
        let told: Vec<_> = applied
            .changes
            .iter()
            .filter(|change| change.part == PackPart::Skill)
            .map(|change| (change.name.as_str(), change.kind, change.before.as_deref(), change.after.as_deref()))
            .collect();
        assert_eq!(told, [
            ("one", None, Some("1"), None),
            ("two", Some(WriteKind::Updated), Some("1"), Some("2")),
        ]);
        let stale = store.apply_pack(&pack, Expect::Revision(Revision(999)), "ann", false).await;
        assert_eq!(stale.unwrap_err().code(), "store.stale_revision");
        store.delete_agent("clerk", Expect::Anything).await.unwrap();
        assert!(skills(&opened).await.iter().all(|(_, _, text)| text.is_none()), "they go with their agent");
    }
}
