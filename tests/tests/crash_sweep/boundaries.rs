//! The sweep over HTTP boundaries: one exchange of each call of each kind of work is held on one side of the service,
//! all of them at a time, and the daemon is killed there.

use anyhow::{Result, ensure};
use std::time::Instant;

use crate::cases::{World, count_repeats};
use crate::life::live;
use crate::prepared;
use crate::tally::Tally;

/// Where exchanges are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The service never hears of them.
    Before,
    /// The service has done them; the answers are lost.
    After,
    /// The service hears of them only after everything has ended without them. Not for a call declared `never`: nobody
    /// could have told a person that it was still on its way.
    Late,
}

pub async fn sweep<W: World>(sides: &[Side]) -> Result<()> {
    let (began, tally) = (Instant::now(), Tally::default());
    let mut world = W::start().await?;
    let mut house = prepared::running(&world).await?;

    // One undisturbed operation of each kind says how many exchanges there are to die in.
    let client = house.client()?;
    world.machines(&client).await?;
    for case in world.cases() {
        case.begin(&client).await?;
    }
    let ended = live(&mut house, &world, &tally).await?.ended(&house)?;
    world.judge(&ended, &client).await?;
    let exchanges = world.exchanges();

    for side in sides {
        let held = world.hold(*side, &house.client()?).await?;
        house.kill()?;
        world.forget_holds();
        if *side != Side::Late {
            world.let_go(false).await?;
        }
        house.spawn()?;
        let ended = live(&mut house, &world, &tally).await?.ended(&house)?;
        world.judge(&ended, &house.client()?).await?;
        if *side == Side::Late {
            world.let_go(true).await?;
            world.judge(&ended, &house.client()?).await?;
        }
        count_repeats(&ended, &tally);
        ensure!(
            *side == Side::Late || held >= exchanges,
            "{held} exchanges were held {side:?}; undisturbed operations make {exchanges}"
        );
        tally.covered(held);
    }

    tally.tell(&format!("at HTTP boundaries over {}", W::PROVIDER), began)?;
    tally.wants(W::TO_REPEAT)
}
