//! Calls that go through the ledger: proposed, run under a claim, and settled.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use toolcrib_definition::{EffectMode, canonical};
use toolcrib_registry::{Entry, RegisteredCodeTool};
use toolcrib_store::{Ask, Lease, LedgerRow, LedgerState, NewCall, Proposal, StoreError, time_ordered_id};

use crate::claim::{Claim, Settled, take_back};
use crate::code;
use crate::events::EventKind;
use crate::executor::millis;
use crate::failpoint::failpoint;
use crate::fingerprint::{EffectiveRequest, hash_of_tool, sha256};
use crate::outcome::Status;
use crate::pipeline::{Begun, Ended, Performed, Pipeline};
use crate::recorded::{ended_of, record_of, waiting_for};

impl Pipeline {
    /// The session under which calls are told apart: the conversation, or else the agent's own.
    pub(crate) fn ledger_session(&self) -> Cow<'_, str> {
        if self.session.is_empty() {
            Cow::Owned(format!("~agent/{}", self.agent_id))
        } else {
            Cow::Borrowed(&self.session)
        }
    }

    /// What would run.
    pub(crate) fn effective_request(
        &self,
        entry: &Entry,
        arguments: &Map<String, Value>,
    ) -> Result<EffectiveRequest, Box<Ended>> {
        let Some(definition) = entry.as_data() else {
            return Ok(EffectiveRequest::of_code(entry.name(), arguments));
        };
        let policy = self.inner.dispatch.policy();
        EffectiveRequest::of_data(definition, arguments, &self.ctx, policy)
            .map_err(|error| Box::new(Ended::error(Status::Error, "call.arguments", error.to_string(), None)))
    }

    /// Has the call written down. It is ours to run, or will be unless [`Claim::made`] says otherwise, or it has ended for now.
    pub(crate) async fn propose(
        &self,
        entry: &Entry,
        arguments: &Map<String, Value>,
        ask: Ask,
        begun: &Begun,
    ) -> Result<Claim, Box<Ended>> {
        let inner = &self.inner;
        let store = inner.registry.store();
        let request = self.effective_request(entry, arguments)?;
        let arguments = Value::Object(arguments.clone());
        let resend = entry.as_data().and_then(|definition| definition.key_life());
        let call = NewCall {
            id: begun.trace_id.clone(),
            session: self.ledger_session().into_owned(),
            call_id: begun.call_id.clone(),
            agent: self.agent_id.clone(),
            tool: begun.tool.clone(),
            effect: entry.effect(),
            arguments_hash: sha256(&canonical(&arguments)),
            arguments: arguments.to_string(),
            ctx: self.ctx.to_json().to_string(),
            request: request.text,
            request_hash: request.hash,
            definition_hash: hash_of_tool(entry),
            resend_ms: resend.map(millis),
            ask,
            approval_id: time_ordered_id(store.clock().as_ref(), store.randomness().as_ref()),
            approval_ms: millis(inner.ledger.approval_time),
            notices: inner.ledger.notices.clone(),
            owner: inner.owner.clone(),
            lease_ms: millis(inner.ledger.lease),
        };
        let claims = Arc::clone(&inner.claims);
        // Almost always it is ours, and then the connection is made while it is written down.
        if call.ask == Ask::IfRepeated && call.effect != EffectMode::Transactional {
            let queued = Claim::queue(store.clone(), claims, call, inner.ledger.lease).await;
            return queued.map_err(|error| Box::new(self.not_proposed(&error, begun)));
        }
        let (arguments_hash, since) = (call.arguments_hash.clone(), Instant::now());
        match store.propose(call).await {
            Ok(Proposal::Claimed(lease) | Proposal::Sent(lease)) => {
                failpoint!("ledger::proposed");
                Ok(Claim::hold(store.clone(), claims, lease, inner.ledger.lease, since, false))
            }
            other => Err(Box::new(self.not_ours(other, &arguments_hash, begun).await)),
        }
    }

    /// How a call ends whose proposal gave it to nobody, or to another.
    async fn not_ours(&self, proposal: Result<Proposal, StoreError>, arguments_hash: &str, begun: &Begun) -> Ended {
        match proposal {
            Ok(Proposal::Awaiting(approval)) => {
                failpoint!("ledger::awaiting");
                self.publish(
                    EventKind::ApprovalRequested,
                    || json!({ "approval_id": approval.id, "ledger_id": approval.ledger_id, "tool": approval.tool, "why": approval.why }),
                );
                let ended = waiting_for(Some(&approval));
                Ended { ledger_id: Some(approval.ledger_id), ..ended }
            }
            Ok(Proposal::Known(row)) => self.known(*row, arguments_hash, begun).await,
            Ok(Proposal::Claimed(lease) | Proposal::Sent(lease)) => self.as_it_stands(&lease.id).await.ended,
            Err(error) => {
                // A repetition only reads, so it may be answered all the same.
                let store = self.inner.registry.store();
                match store.ledger_row_of(&self.ledger_session(), &begun.call_id).await {
                    Ok(Some(row)) if row.id != begun.trace_id => self.known(row, arguments_hash, begun).await,
                    _ => self.not_proposed(&error, begun),
                }
            }
        }
    }

    /// A call with this key is there already: its outcome is this call's too.
    async fn known(&self, row: LedgerRow, arguments_hash: &str, begun: &Begun) -> Ended {
        if row.agent != self.agent_id || row.tool != begun.tool || row.arguments_hash != arguments_hash {
            let message =
                format!("the call_id {:?} names another call in this session; give this one its own", row.call_id);
            return Ended::error(Status::Error, "call.conflict", message, None);
        }
        let deadline = Instant::now() + self.agent.limits().tool_timeout;
        let store = self.inner.registry.store();
        let waited = crate::wait::until(store, &row.id, deadline, |row| !row.state.is_moving()).await;
        let row = match waited {
            Ok(now) => now.unwrap_or(row),
            Err(error) => return Ended::error(Status::Waiting, error.code(), error.to_string(), None),
        };
        let approval = match row.state {
            LedgerState::Awaiting => store.approval_of_call(&row.id).await.ok().flatten(),
            _ => None,
        };
        ended_of(&row, approval.as_ref())
    }

    /// The proposal failed. What the database surely did not keep is an error; else nobody knows whether the row is there, and
    /// it is taken back as soon as that is possible.
    fn not_proposed(&self, error: &StoreError, begun: &Begun) -> Ended {
        let reason = error.reason().map(str::to_owned);
        tracing::error!(error = %error, reason, "a call could not be written down");
        if !matches!(error, StoreError::Unavailable { .. }) {
            let message = format!("the call could not be written down, so nothing was sent: {error}");
            return Ended::error(Status::Error, error.code(), message, reason);
        }
        let epoch = i64::from(begun.effect != EffectMode::Transactional);
        let lease = Lease { id: begun.trace_id.clone(), owner: self.inner.owner.clone(), epoch };
        let not_made = Ended::error(Status::Error, "call.not_made", "the call was not made", None);
        let store = self.inner.registry.store().clone();
        self.inner.running.spawn(take_back(store, lease, record_of(&not_made)));
        let message = "it is not known whether the call was written down; ask again with the same call_id";
        let ended = Ended::error(Status::Waiting, "call.running", message, reason);
        Ended { ledger_id: Some(begun.trace_id.clone()), ..ended }
    }

    /// Runs a call that is ours, and writes down how it ended.
    pub(crate) async fn run_claimed(
        &self,
        entry: &Entry,
        arguments: &Map<String, Value>,
        claim: Claim,
        begun: &mut Begun,
    ) -> Ended {
        let performed = match entry.as_code() {
            Some(tool) if tool.effect() == EffectMode::Transactional => {
                Some(self.transactional(tool, arguments, &claim, begun).await)
            }
            _ => tokio::select! {
                biased;
                performed = self.perform(entry, arguments, Some(&claim), begun) => Some(performed),
                // A repetition need not wait for the upstream.
                () = claim.lost() => None,
            },
        };
        let performed = if claim.made().await { performed } else { None };
        let Some(Performed { ended, state }) = performed else {
            // Nothing was sent, and what the call came to is another's word.
            let arguments_hash = sha256(&canonical(&Value::Object(arguments.clone())));
            return self.not_ours(claim.instead(), &arguments_hash, begun).await;
        };
        failpoint!("ledger::answered");
        let ended = Ended { ledger_id: Some(claim.id().to_owned()), ..ended };
        let ended = match state {
            Some(state) => self.settle(claim, state, ended).await,
            None => ended,
        };
        failpoint!("ledger::settled");
        ended
    }

    /// Writes down how a call ended, and tells of one in doubt. Returns what stands: another's word, when the call was
    /// somebody else's by then.
    pub(crate) async fn settle(&self, claim: Claim, state: LedgerState, ended: Ended) -> Ended {
        if state == LedgerState::InDoubt {
            self.publish(EventKind::CallInDoubt, || json!({ "ledger_id": claim.id() }));
        }
        let reason = match (&ended.error, state) {
            (_, LedgerState::Succeeded) | (None, _) => None,
            (Some((code, None)), _) => Some(code.to_string()),
            (Some((code, Some(reason))), _) => Some(format!("{code}: {reason}")),
        };
        let id = claim.id().to_owned();
        match claim.settle(state, record_of(&ended), reason, &self.inner.running).await {
            Settled::AsSaid => ended,
            Settled::ByAnother => self.as_it_stands(&id).await.ended,
            Settled::NotYet => {
                let message = "it is not known yet how the call ends; ask again with the same call_id";
                let ended = Ended::error(Status::Waiting, "call.running", message, None);
                Ended { ledger_id: Some(id), ..ended }
            }
        }
    }

    /// Runs a transactional tool: its effect and the end of its call are one commit.
    async fn transactional(
        &self,
        tool: &RegisteredCodeTool,
        arguments: &Map<String, Value>,
        claim: &Claim,
        begun: &mut Begun,
    ) -> Performed {
        let store = self.inner.registry.store();
        let failed = |error: &StoreError| {
            let message = format!("the call could not be made, and nothing of it was kept: {error}");
            Ended::error(Status::Error, error.code(), message, error.reason().map(str::to_owned))
        };
        let mut transaction = match store.begin_effect(claim.id(), claim.owner()).await {
            Ok(Some(transaction)) => transaction,
            Ok(None) => return self.as_it_stands(claim.id()).await,
            Err(error) => return Performed::failed(failed(&error)),
        };
        let running = Instant::now();
        let limit = self.agent.limits().tool_timeout;
        let deadline = running + store.effect_limit().map_or(limit, |most| most.min(limit));
        let context = self.code_context(begun);
        let result =
            code::run(tool, arguments, Some(&mut transaction), &context, deadline, &begun.caller.cancellation).await;
        begun.trace.phase("run", running);
        let value = match result {
            Ok(value) => value,
            Err(failure) => {
                let ended = self.code_failed(tool, failure, &begun.caller);
                let reason = ended.error.as_ref().map(|(code, _)| code.to_string()).unwrap_or_default();
                return match transaction.fail(&record_of(&ended), &reason).await {
                    Ok(()) => Performed { ended, state: None },
                    // Undone all the same; the row says so when the database can be written.
                    Err(_) => Performed::failed(ended),
                };
            }
        };
        let ended = Ended::new(Status::Ok, value);
        failpoint!("ledger::effect");
        match transaction.succeed(&record_of(&ended)).await {
            Ok(()) => Performed { ended, state: None },
            Err(error @ StoreError::Refused { .. }) => Performed::failed(failed(&error)),
            // The commit may have arrived: the row knows.
            Err(error) => {
                tracing::error!(error = %error, reason = error.reason(), "the end of a commit is not known");
                self.as_it_stands(claim.id()).await
            }
        }
    }

    /// The outcome that the ledger has by now. One that is still to run is run by whoever finds it.
    async fn as_it_stands(&self, id: &str) -> Performed {
        let ended = match self.inner.registry.store().ledger_row(id).await {
            Ok(Some(row)) => ended_of(&row, None),
            Ok(None) => Ended::error(Status::Error, "call.internal", "the call is not in the ledger", None),
            Err(error) => {
                let message = "the database can't be read, so it is not known how the call ended; ask again with the same call_id";
                Ended::error(Status::Waiting, error.code(), message, error.reason().map(str::to_owned))
            }
        };
        Performed { ended, state: None }
    }
}
