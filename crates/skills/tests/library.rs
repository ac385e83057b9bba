//! A library of skills in many languages: read from disk, shown, triggered and loaded.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Value, json};
use toolcrib_registry::Agent;
use toolcrib_skills::{NotLoaded, Skill, SkillCatalog, read_root};

fn library() -> SkillCatalog {
    let (skills, errors) = read_root(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/library"));
    assert!(errors.is_empty(), "{errors:?}");
    assert!(skills.len() >= 20);
    let mut catalog = SkillCatalog::default();
    for skill in skills {
        catalog.put("", skill);
    }
    catalog.index();
    catalog
}

fn agent(profile: Value) -> Agent {
    Agent::from_json(&profile).unwrap()
}

fn names(names: &[&str]) -> HashSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// What a message activates, as `name reason`.
fn activated(catalog: &SkillCatalog, profile: Value, message: &str, present: &[&str]) -> Vec<String> {
    let agent = agent(profile);
    let active = catalog.of("support", &agent).activate(message, &names(present));
    active.iter().map(|active| format!("{} {}", active.skill.name(), active.reason)).collect()
}

#[test]
fn triggers_match_whole_words_without_case_and_accents() {
    let catalog = library();
    for (message, expected) in [
        ("Quero um presénte", &["presentes trigger:presente"][..]),
        ("QUERO UM PRESENTE!", &["presentes trigger:presente"]),
        ("por favor apresente o plano", &[]),
        ("presentes para todos", &[]),
        ("um embrulho  para\n presente, por favor", &["presentes trigger:embrulho para presente"]),
        (
            "i want my MONEY-BACK now",
            &["refunds trigger:money back", "tone-of-voice companion:refunds", "order-lookup companion:refunds"],
        ),
        ("money is not back", &[]),
        ("a devolucao, nao serviu", &["trocas trigger:devolução"]),
        ("die Groesse", &[]),
        ("Die GRÖSSE PASST NICHT", &["rueckgabe trigger:Größe passt nicht"]),
        ("ein strassenrad", &["strassenrad trigger:Straßenrad"]),
        ("quel est le delai de livraison ?", &["livraison trigger:délai de livraison"]),
        ("L’adresse est fausse", &["livraison trigger:l'adresse est fausse"]),
        ("我想退款谢谢", &["tui-huan-huo trigger:退款"]),
        ("退了款", &[]),
        ("商品を返品したいです", &["henpin trigger:返品"]),
        ("Где ВОЗВРАТ? Еще не приехал", &["vozvrat trigger:возврат"]),
        ("أريد اسْتِرْداد المال", &["istirdad trigger:استرداد"]),
        ("मुझे पैसे वापस चाहिए", &["wapsi trigger:पैसे वापस"]),
        ("Kirik geldi", &["iade trigger:kırık geldi"]),
        ("zly rozmiar", &["zwrot trigger:zły rozmiar"]),
        ("is this a SEV 1?", &["incident-report trigger:sev 1"]),
        ("explain analyze please", &["sql-review trigger:EXPLAIN ANALYZE"]),
        ("", &[]),
        ("¡¿!?", &[]),
    ] {
        assert_eq!(activated(&catalog, json!({}), message, &[]), expected, "{message}");
    }
}

#[test]
fn an_allowlist_holds_for_triggers_companions_and_loading() {
    let catalog = library();
    let narrow = json!({"skills": ["refunds", "order-lookup"]});
    let told = activated(&catalog, narrow.clone(), "a refund, and gdpr", &[]);
    assert_eq!(told, ["refunds trigger:refund", "order-lookup companion:refunds"], "no companion beyond the list");
    assert_eq!(activated(&catalog, json!({"skills": []}), "a refund", &[]), [""; 0]);
    let told = activated(&catalog, narrow.clone(), "refund", &["order-lookup"]);
    assert_eq!(told, ["refunds trigger:refund"], "what is there is not brought again");
    assert_eq!(activated(&catalog, narrow.clone(), "refund", &["refunds"]), [""; 0]);

    let agent = agent(narrow);
    let skills = catalog.of("support", &agent);
    let shown: Vec<_> = skills.list().into_iter().map(|skill| skill.name()).collect();
    assert_eq!(shown, ["order-lookup", "refunds"]);
    let loaded = skills.load("refunds", &names(&[])).unwrap();
    let loaded: Vec<_> = loaded.iter().map(|a| format!("{} {}", a.skill.name(), a.reason)).collect();
    assert_eq!(loaded, ["refunds load_skill", "order-lookup companion:refunds"]);
    assert_eq!(skills.load("gdpr-export", &names(&[])).unwrap_err(), NotLoaded::Unknown("gdpr-export".into()));
    assert_eq!(skills.load("no_such", &names(&[])).unwrap_err(), NotLoaded::Unknown("no_such".into()));
    assert_eq!(skills.load("refunds", &names(&["refunds"])).unwrap_err(), NotLoaded::Present("refunds".into()));
}

#[test]
fn letters_of_other_scripts_stay_whole() {
    let mut catalog = SkillCatalog::default();
    for (name, trigger) in [("trip", "たひ"), ("hangul", "환불")] {
        let text = format!("---\nname: {name}\ndescription: d\ntriggers: [{trigger}]\n---\nx");
        catalog.put("", Skill::from_markdown(name, &text).unwrap());
    }
    catalog.index();
    assert_eq!(activated(&catalog, json!({}), "たびに出る", &[]), [""; 0], "another letter is another word");
    assert_eq!(activated(&catalog, json!({}), "환불 해 주세요", &[]), ["hangul trigger:환불"]);
}

#[test]
fn companions_go_one_level() {
    let mut catalog = SkillCatalog::default();
    for (name, companion) in [("a", "b"), ("b", "c"), ("c", "a")] {
        let text =
            format!("---\nname: {name}\ndescription: d\ntriggers: [word {name}]\ncompanions: [{companion}]\n---\nx");
        catalog.put("", Skill::from_markdown(name, &text).unwrap());
    }
    catalog.index();
    assert_eq!(activated(&catalog, json!({}), "word a", &[]), ["a trigger:word a", "b companion:a"]);
    assert_eq!(
        activated(&catalog, json!({}), "word a word b", &[]),
        ["a trigger:word a", "b trigger:word b", "c companion:b"],
        "a trigger is a better reason than a companion"
    );
}

#[test]
fn eager_is_the_agents() {
    let catalog = library();
    let eager = |profile: Value| {
        let agent = agent(profile);
        let active = catalog.of("support", &agent).eager();
        active.iter().map(|a| format!("{} {}", a.skill.name(), a.reason)).collect::<Vec<_>>()
    };
    assert_eq!(eager(json!({})), [""; 0], "whatever the frontmatter of escalation says");
    assert_eq!(eager(json!({"skills_eager": ["bare", "no_such"]})), ["bare eager"]);
    assert_eq!(
        eager(json!({"skills": ["refunds", "tone-of-voice"], "skills_eager": "all"})),
        ["refunds eager", "tone-of-voice eager"]
    );
    assert_eq!(
        eager(json!({"skills": ["refunds", "tone-of-voice"], "skills_eager": ["refunds"]})),
        ["refunds eager", "tone-of-voice companion:refunds"]
    );
    assert_eq!(eager(json!({"skills": ["bare"], "skills_eager": ["refunds"]})), [""; 0], "only what it may use");
}

#[test]
fn an_agents_own_skill_stands_over_the_shared_one() {
    let mut catalog = library();
    let own = "---\nname: refunds\ndescription: Ours\ntriggers: [our words]\n---\nOurs.";
    catalog.put("support", Skill::from_markdown("refunds", own).unwrap());
    let others = "---\nname: secret-plan\ndescription: Theirs\ntriggers: [plan]\n---\nTheirs.";
    catalog.put("sales", Skill::from_markdown("secret-plan", others).unwrap());
    catalog.index();
    assert_eq!(activated(&catalog, json!({}), "a refund", &[]), [""; 0], "the shared one's triggers are gone with it");
    assert_eq!(activated(&catalog, json!({}), "our words", &[]), ["refunds trigger:our words"]);
    assert_eq!(activated(&catalog, json!({}), "the plan", &[]), [""; 0], "another agent's is not there");
    let agent = agent(json!({}));
    assert_eq!(catalog.of("support", &agent).get("refunds").unwrap().description(), "Ours");
    assert_ne!(catalog.of("sales", &agent).get("refunds").unwrap().description(), "Ours");
    let shown = catalog.of("support", &agent).list();
    assert_eq!(shown.iter().filter(|skill| skill.name() == "refunds").count(), 1);
    assert!(shown.iter().all(|skill| skill.name() != "secret-plan"));
}

#[test]
fn what_was_understood_though_it_is_not_as_it_should_be() {
    let catalog = library();
    let notes = |name: &str| catalog.get("", name).unwrap().skill.notes().join("; ");
    assert_eq!(notes("refunds"), "");
    assert!(notes("incident-report").contains("read line by line"), "{}", notes("incident-report"));
    let incident = catalog.get("", "incident-report").unwrap().skill;
    assert_eq!(incident.description(), "Use when: something is broken in production, and a report is due");
    assert!(notes("escalation").contains("its place does"));
    assert!(catalog.get("", "escalation").unwrap().skill.says_eager());
    assert!(notes("gdpr-export").contains("colour"));
    let notes = catalog.get("", "release-notes").unwrap().skill;
    assert_eq!(notes.body(), "What changed for the reader, not for the author.");
    assert_eq!(catalog.get("", "livraison").unwrap().skill.description(), "Délais, transporteurs et colis perdus.");
}

#[test]
fn what_is_no_skill_is_said_all_at_once() {
    for (name, text, expected) in [
        ("a", "no frontmatter", "/: a SKILL.md begins with a line"),
        ("a", "---\nname: a\n", "the frontmatter has no second line ---"),
        ("a", "---\nname: b\n---\nx", "the frontmatter says \"b\" and its place \"a\""),
        ("a", "---\nname: a\ndescription: '  '\n---\nx", "/description: a skill needs a description"),
        ("a", "---\nname: a\ndescription: [1]\n---\nx", "the description is a text, not a list"),
        ("a", "---\nname: a\ndescription: d\n---\n  \n", "a skill needs a text below its frontmatter"),
        ("A b", "---\ndescription: d\n---\nx", "is no name of a skill"),
        ("a", "---\ndescription: d\ntriggers: {a: 1}\n---\nx", "/triggers: expected a list of texts"),
        ("a", "---\ndescription: d\ntriggers: [ok, '!!']\n---\nx", "/triggers/1: \"!!\" holds no word"),
        ("a", "---\ndescription: d\ncompanions: [a]\n---\nx", "/companions/0: \"a\" is no name of another skill"),
        ("a", "---\n- just\n- a list\n---\nx", "can't be read as YAML"),
        ("../etc", "---\ndescription: d\n---\nx", "is no name of a skill"),
    ] {
        let problems = Skill::from_markdown(name, text).unwrap_err().to_string();
        assert!(problems.contains(expected), "{text:?}: {problems}");
    }
    let three = Skill::from_markdown("a", "---\nname: b\ntriggers: 1\n---\n").unwrap_err();
    assert_eq!(three.iter().count(), 4, "{three}");
}

#[test]
fn a_root_that_is_not_there_is_said() {
    let (skills, errors) = read_root(Path::new("no/such/folder"));
    assert!(skills.is_empty());
    assert!(errors[0].to_string().contains("can't be read"), "{errors:?}");
}
