//! What the houses of a sweep have in common: the service and the module. Every house gets subjects of its own.

use anyhow::{Context, Result};
use holdfast_tests::house::{Grant, House};
use holdfast_tests::modules;
use std::collections::BTreeMap;
use std::fs;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::scenario::{Scenario, Service, Subject};

/// Daemons that run at a time, of all sweeps together: they wait most of their time.
static DAEMONS: Semaphore = Semaphore::const_new(8);

/// Waits until one more daemon may run.
pub async fn turn() -> Result<SemaphorePermit<'static>> {
    DAEMONS.acquire().await.context("nobody closes this")
}

pub struct Shop<S: Service> {
    pub service: S,
    module: Vec<u8>,
    approved: Grant,
}

impl<S: Service> Shop<S> {
    pub async fn open() -> Result<Shop<S>> {
        let modules = tokio::task::spawn_blocking(modules::build).await??;
        let mut module = fs::read(modules.provider(S::PROVIDER)?)?;
        S::edit(&mut module)?;
        let manifest = holdfast_runtime::inspect(&module).context("reading the module's manifest")?.manifest;
        Ok(Shop { service: S::start().await?, module, approved: Grant::approving(&manifest) })
    }

    /// A house for these subjects, not started.
    pub fn house(&self, subjects: &[Subject<S::World>]) -> Result<House> {
        let mut house = House::new()?;
        house.log_filter("info");
        house.drop_in("provider.wasm", &self.module)?;
        self.bind(&mut house, subjects);
        Ok(house)
    }

    /// From its next start on, the house is for these subjects.
    pub fn bind<'a>(&self, house: &mut House, subjects: impl IntoIterator<Item = &'a Subject<S::World>>) {
        let endpoints = subjects.into_iter().map(|subject| self.service.endpoint(subject));
        let endpoints: BTreeMap<_, _> = endpoints.map(|endpoint| (endpoint.site.clone(), endpoint)).collect();
        house.grant(endpoints.into_values().fold(self.approved.clone(), Grant::endpoint));
    }

    pub async fn subjects(
        &self,
        wanted: impl IntoIterator<Item = (String, &'static Scenario<S::World>)>,
    ) -> Result<Vec<Subject<S::World>>> {
        let mut subjects = Vec::new();
        for (name, scenario) in wanted {
            subjects.push(self.service.subject(&name, scenario).await?);
        }
        Ok(subjects)
    }
}
