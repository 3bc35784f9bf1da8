//! Exchanges that go wrong while the daemon lives: each loss happens once, to the first exchange of each turn that an
//! undisturbed run showed, to an allocation or operation of its own, all at a time in one house.

use anyhow::{Context, Result, ensure};
use holdfast_tests::proxy::{Gate, Kind, Record, Seen};

use crate::exchanges::{Turn, name_of, point, quiet};
use crate::life::live;
use crate::scenario::Service;
use crate::shop::{Shop, turn};
use crate::tally::Tally;

/// What happens to an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The service has done it; the connection ends without an answer.
    Dropped,
    /// The service has done it; half of the answer arrives.
    Truncated,
    /// The service has done it; its answer comes when nobody waits for it any more.
    Delayed,
    /// 503, and the service never hears of it.
    Unavailable,
}

/// What a daemon waits for an answer where some are too late, in seconds. Much longer than any answer takes that is not.
const LIMIT: &str = "call-seconds = 20";

impl Loss {
    pub const ALL: &[Loss] = &[Loss::Dropped, Loss::Truncated, Loss::Delayed, Loss::Unavailable];

    fn kind(self, gate: &Gate) -> Kind {
        match self {
            Loss::Dropped => Kind::DropReply,
            Loss::Truncated => Kind::Truncate,
            Loss::Delayed => Kind::HoldReply(gate.clone()),
            Loss::Unavailable => Kind::Unavailable,
        }
    }

    /// Whether this is what became of an exchange. What is delayed has no end yet.
    fn struck(self, record: &Record) -> bool {
        let done = record.status.is_some();
        match self {
            Loss::Dropped => done && record.seen == Some(Seen::Nothing),
            Loss::Truncated => done && matches!(record.seen, Some(Seen::CutOff(_))),
            Loss::Delayed => done && record.seen.is_none(),
            Loss::Unavailable => !record.forwarded && record.seen == Some(Seen::Whole(503)),
        }
    }
}

/// One house for one kind of loss.
pub async fn lose<S: Service>(
    shop: &Shop<S>,
    loss: Loss,
    turns: &[Turn<S::World>],
    tally: &Tally,
) -> Result<()> {
    let (_turn, gate) = (turn().await?, Gate::closed());
    let named = |(row, number, _): &Turn<S::World>| (format!("{}-{number}", row.name), *row);
    let subjects = shop.subjects(turns.iter().map(named)).await?;
    let mut house = shop.house(&subjects)?;
    if loss == Loss::Delayed {
        house.limits(LIMIT);
    }
    for (subject, (_, number, _)) in subjects.iter().zip(turns) {
        subject.strike(loss.kind(&gate), *number);
    }
    let ended =
        live(&mut house, &shop.service, &subjects, tally).await.with_context(|| format!("{loss:?}"))?;
    for (subject, (row, number, name)) in subjects.iter().zip(turns) {
        let struck: Vec<String> =
            subject.records().iter().filter(|record| loss.struck(record)).map(name_of).collect();
        ensure!(
            struck == [name.clone()],
            "{}: {loss:?} at {struck:?}, not at turn {number} {name}",
            row.name
        );
    }
    shop.service.judge_all(&subjects, &house.client()?).await.with_context(|| format!("{loss:?}"))?;
    // What is too late changes nothing.
    gate.open();
    quiet(&subjects).await?;
    tally.repeats(&ended);
    turns.iter().for_each(|turn| tally.covered(point(loss, turn)));
    house.kill()
}
