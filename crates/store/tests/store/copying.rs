//! A whole database copied into another, in every direction.

use toolcrib_store::{
    Ask, Begun, CopyError, Decision, Expect, LedgerFilter, NewCall, NewToken, NewTurn, Revision, Role, SkillWrite,
    Store, TraceFilter, TurnLease,
};

use crate::databases::{Opened, postgres, sqlite};
use crate::{tool, trace};

async fn fill(store: &Store) {
    for n in 0..1_203 {
        store.put_tool(&tool(&format!("t_{n}"), 1), Expect::Anything, "ann").await.unwrap();
    }
    store.put_tool(&tool("t_0", 2), Expect::Anything, "bob").await.unwrap();
    store.delete_tool("t_1", Expect::Anything).await.unwrap();
    store.put_agent("clerk", "{}", Expect::Anything).await.unwrap();
    let new = NewToken { name: "ann".into(), role: Role::Admin, agents: Some(vec!["clerk".into()]), expires_at: None };
    store.create_token(&new).await.unwrap();
    let skill =
        SkillWrite { scope: "clerk".into(), name: "refunds".into(), document: "---\nname: refunds\n---\n".into() };
    store.put_skill(&skill, Expect::Anything, "ann").await.unwrap();
    let turn = NewTurn { id: "t".into(), agent: "clerk".into(), session: "s".into(), parent: None, input: "{}".into() };
    let Begun::New(turn) = store.begin_turn(&turn, Some("o"), 1_000).await.unwrap() else { unreachable!() };
    let lease = TurnLease { id: turn.id, owner: "o".into(), epoch: turn.epoch };
    store.park_turn(&lease, "{}", &["x".into()]).await.unwrap();
    store.put_mcp_server("files", "{}", Expect::Anything).await.unwrap();
    store
        .insert_traces(&(0..700).map(|n| trace(n, "s\u{1f600}", "clerk", i64::from(n))).collect::<Vec<_>>())
        .await
        .unwrap();
    store.record_evidence("s", "clerk", "goods", &["a".into(), "B".into(), "\u{e9}".into()]).await.unwrap();
    for n in 0..3 {
        let call = NewCall {
            id: format!("{n:032x}"),
            session: "s".into(),
            call_id: format!("c{n}"),
            agent: "clerk".into(),
            tool: "t_0".into(),
            effect: toolcrib_definition::EffectMode::AtMostOnce,
            arguments: "{}".into(),
            arguments_hash: format!("a{n}"),
            ctx: "{}".into(),
            request: "{}".into(),
            request_hash: format!("r{n}"),
            definition_hash: "d".into(),
            resend_ms: None,
            ask: Ask::Always("why".into()),
            approval_id: format!("{n:032x}"),
            approval_ms: 1_000,
            notices: Vec::new(),
            owner: "o".into(),
            lease_ms: 1_000,
        };
        store.propose(call).await.unwrap();
    }
    store.decide(&format!("{:032x}", 1), Decision::Deny, "ann", Some("no")).await.unwrap();
}

async fn copies(from: &Opened, to: &Opened) {
    fill(&from.store).await;
    let copied = from.store.copy_to(&to.store).await.unwrap();
    let rows = |name: &str| copied.iter().find(|table| table.table == name).unwrap().rows;
    assert_eq!((rows("tools"), rows("tool_versions"), rows("traces")), (1_203, 1_204, 700));
    assert_eq!((rows("tokens"), rows("evidence"), rows("ledger"), rows("ledger_events")), (1, 3, 3, 4));
    assert_eq!(to.store.revision().await.unwrap(), from.store.revision().await.unwrap());
    assert_eq!((rows("skills"), rows("skill_versions"), rows("turns"), rows("turn_waits")), (1, 1, 1, 1));
    let all = Revision(i64::MAX);
    let catalog = async |store: &Store| {
        let tools = store.tools_changed(Revision(0), all, 5_000).await.unwrap();
        tools.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(catalog(&to.store).await, catalog(&from.store).await);
    let ledger = async |store: &Store| store.ledger_rows(&LedgerFilter::default(), None, 10).await.unwrap().items;
    assert_eq!(ledger(&to.store).await, ledger(&from.store).await);
    let id = format!("{:032x}", 1);
    assert_eq!(to.store.ledger_events(&id).await.unwrap(), from.store.ledger_events(&id).await.unwrap());
    assert_eq!(to.store.approval(&id).await.unwrap(), from.store.approval(&id).await.unwrap());
    assert_eq!(to.store.traces(&TraceFilter::default(), None, 500).await.unwrap().items.len(), 500);
    // A database that holds something is left alone.
    let again = from.store.copy_to(&to.store).await;
    assert!(matches!(again, Err(CopyError::NotEmpty { table: "tools" })), "{again:?}");
    // And it goes on working.
    to.store.put_tool(&tool("later", 1), Expect::Absent, "ann").await.unwrap();
}

#[tokio::test]
async fn from_sqlite_to_sqlite() {
    copies(&sqlite().await, &sqlite().await).await;
}

#[tokio::test]
async fn from_sqlite_to_postgres() {
    if let Some(target) = postgres().await {
        copies(&sqlite().await, &target).await;
    }
}

#[tokio::test]
async fn from_postgres_to_sqlite() {
    if let Some(source) = postgres().await {
        copies(&source, &sqlite().await).await;
    }
}

#[tokio::test]
async fn no_column_is_forgotten() {
    let opened = sqlite().await;
    let mut expected = opened.columns().await;
    expected.retain(|column| {
        !column.starts_with("catalog.") && !column.starts_with("_sqlx") && !column.starts_with("sqlite")
    });
    let mut known = toolcrib_store::copied_columns();
    expected.sort();
    known.sort();
    assert_eq!(known, expected);
}
