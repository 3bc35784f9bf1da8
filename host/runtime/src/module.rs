//! A loaded module: checked, compiled, linked, and able to run any number of callbacks at once.

use crate::engine::Engine;
use crate::error::CallEnd;
use crate::exports::Exports;
use crate::home::AtHome;
use crate::inspect::Inspected;
use crate::pure::{self, Nowhere};
use crate::run::{Call, run};
use holdfast_effects::{Callback, Port, Returned};
use holdfast_manifest::Manifest;
use jiff::Timestamp;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// One file's worth of provider. Immutable; a replaced file makes another one.
pub struct Module {
    engine: Engine,
    inspected: Inspected,
    exports: Exports,
    /// Calls that are still to begin on the guests' threads because a recent one was long.
    long: AtomicU32,
}

/// After a call that was long, so many of the module's calls begin on the guests' threads.
const LONG_MEMORY: u32 = 16;

impl Module {
    pub(crate) fn new(engine: Engine, inspected: Inspected, exports: Exports) -> Module {
        Module { engine, inspected, exports, long: AtomicU32::new(0) }
    }

    /// SHA-256 of the file, lower-case hex.
    pub fn digest(&self) -> &str {
        &self.inspected.digest
    }

    /// Bytes of the file.
    pub fn size(&self) -> usize {
        self.inspected.size
    }

    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.inspected.manifest
    }

    /// Provider name, as the manifest has it.
    pub fn name(&self) -> &str {
        &self.inspected.manifest.provider.name
    }

    /// Contract version that the module's names carry, for example `0.1.0`.
    pub fn contract(&self) -> &str {
        &self.inspected.contract
    }

    /// Names of the component's imports and exports.
    pub fn inspected(&self) -> &Inspected {
        &self.inspected
    }

    /// Does this module understand resume tokens that `state_version` wrote?
    pub fn reads_state(&self, state_version: u32) -> bool {
        self.inspected.manifest.provider.reads.contains(&state_version)
    }

    /// Does this module export `capacity`: can it resolve classes, allocate and release?
    pub fn has_capacity(&self) -> bool {
        self.inspected.has_capacity()
    }

    /// Runs one callback in a fresh instance, until `deadline` at the latest. Needs a tokio runtime with time around it.
    ///
    /// A callback that must be pure is given a port that leads nowhere and runs twice, in two fresh instances; answers
    /// that differ are none (R2.24).
    ///
    /// Dropping the future stops the guest. Neither that nor the deadline aborts a mutating call that is on the wire:
    /// the port owns it (attack 82).
    ///
    /// # Errors
    /// [`CallEnd`] where the guest gave no answer that counts.
    pub async fn call(
        &self,
        callback: Callback,
        port: Arc<dyn Port>,
        deadline: Timestamp,
    ) -> Result<Returned, CallEnd> {
        let until = Instant::now() + self.time_left(deadline)?;
        if !pure::is_pure(&callback) {
            return self.once(callback, Arc::new(AtHome { port, home: Handle::current() }), until).await;
        }
        let first = self.once(callback.clone(), Arc::new(Nowhere), until).await?;
        pure::agreed(first, &self.once(callback, Arc::new(Nowhere), until).await?)
    }

    async fn once(
        &self,
        callback: Callback,
        port: Arc<dyn Port>,
        until: Instant,
    ) -> Result<Returned, CallEnd> {
        let inner = &self.engine.inner;
        // Most calls find an instance free; only the others need a timer.
        let permit = match inner.permits.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => tokio::time::timeout_at(until.into(), inner.permits.clone().acquire_owned())
                .await
                .map_err(|_| CallEnd::Overloaded)?
                .map_err(|_| CallEnd::Closed)?,
        };
        let call = Call {
            engine: inner.engine.clone(),
            memory_limit: inner.options.memory_limit,
            exports: self.exports.clone(),
            callback,
            port,
            until,
            permit,
        };
        let mut running = Box::pin(run(call));
        if self.may_begin_here() {
            match tokio::time::timeout_at(until.into(), self.begin_here(running.as_mut())).await {
                Ok(Some(answer)) => return answer,
                Ok(None) => {}
                Err(_) => return Err(CallEnd::Deadline),
            }
        }
        let mut task = AbortOnDrop(self.engine.guests().spawn(running));
        // This timer is in the caller's runtime, which no guest can keep busy.
        match tokio::time::timeout_at(until.into(), &mut task.0).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) if error.is_panic() => Err(CallEnd::Fault),
            Ok(Err(_)) => Err(CallEnd::Closed),
            Err(_) => Err(CallEnd::Deadline),
        }
    }

    /// Runs on the caller's thread while the guest has used no more than a part of a tick in all. Most callbacks end
    /// within microseconds of work, and waking another thread each time they wait would cost more than they do, and
    /// leave them among the guests that spin. What works for longer goes on among the guests.
    async fn begin_here(
        &self,
        mut running: Pin<&mut impl Future<Output = Result<Returned, CallEnd>>>,
    ) -> Option<Result<Returned, CallEnd>> {
        let most = self.engine.inner.options.tick / 4;
        let mut used = Duration::ZERO;
        poll_fn(|context| {
            let begun = Instant::now();
            // A panic of a host function must not take the caller along (attack 81).
            let polled = catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(context)));
            used += begun.elapsed();
            match polled {
                Ok(Poll::Ready(answer)) => Poll::Ready(Some(answer)),
                Ok(Poll::Pending) if used < most => Poll::Pending,
                Ok(Poll::Pending) => {
                    self.long.store(LONG_MEMORY, Relaxed);
                    Poll::Ready(None)
                }
                Err(_) => Poll::Ready(Some(Err(CallEnd::Fault))),
            }
        })
        .await
    }

    fn may_begin_here(&self) -> bool {
        self.long.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err()
    }

    fn time_left(&self, deadline: Timestamp) -> Result<Duration, CallEnd> {
        let left = deadline.duration_since(Timestamp::now());
        match Duration::try_from(left) {
            Ok(left) if !left.is_zero() => Ok(left.min(self.engine.inner.options.call_timeout)),
            _ => Err(CallEnd::Deadline),
        }
    }
}

/// A task that does not outlive the future that waits for it.
struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
