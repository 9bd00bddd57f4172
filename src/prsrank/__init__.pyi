"""The public names of prsrank, once: `prsrank/__init__.py` finds their modules here."""

from prsrank.audit import audit_log as audit_log
from prsrank.audit.findings import Audit as Audit
from prsrank.clicks.position_based import PositionBasedModel as PositionBasedModel
from prsrank.clicks.production import production_scores as production_scores
from prsrank.clicks.simulate import simulate_clicks as simulate_clicks
from prsrank.data.collections import load_dataset as load_dataset
from prsrank.data.dataset import RankingDataset as RankingDataset
from prsrank.data.dataset import concatenate as concatenate
from prsrank.data.letor import read_letor as read_letor
from prsrank.data.synthetic import synthetic_dataset as synthetic_dataset
from prsrank.errors import DataWarning as DataWarning
from prsrank.errors import InputError as InputError
from prsrank.evaluation.judgements import judge as judge
from prsrank.evaluation.log_evaluation import evaluate_on_log as evaluate_on_log
from prsrank.fit.steps import FitResult as FitResult
from prsrank.fit.steps import fit_log as fit_log
from prsrank.fit.steps import repeat_fit as repeat_fit
from prsrank.logs.click_log import ClickLog as ClickLog
from prsrank.logs.click_log_files import write_events as write_events
from prsrank.logs.held_out import hold_out as hold_out
from prsrank.logs.mapping import LogMapping as LogMapping
from prsrank.logs.reading import read_click_log as read_click_log
from prsrank.logs.reading import read_log as read_log
from prsrank.losses.drop_in import prs_objective as prs_objective
from prsrank.monitor.monitoring import Monitoring as Monitoring
from prsrank.monitor.monitoring import monitor_log as monitor_log
from prsrank.pairs.outer_pairs import OuterPairs as OuterPairs
from prsrank.pairs.pair_set import PairSet as PairSet
from prsrank.pairs.posterior import Posterior as Posterior
from prsrank.pairs.posterior import posterior as posterior
from prsrank.propensity.curve import PowerLaw as PowerLaw
from prsrank.propensity.curve import Propensities as Propensities
from prsrank.propensity.curve import covering as covering
from prsrank.propensity.harvest import HarvestEstimator as HarvestEstimator
from prsrank.propensity.randomised import RandomisedEstimator as RandomisedEstimator
from prsrank.propensity.randomised import SwapEstimator as SwapEstimator
from prsrank.propensity.regression_em import RegressionEM as RegressionEM
from prsrank.propensity.tempering import temper as temper
from prsrank.propensity.tempering import tempered as tempered
from prsrank.rankers.base import load_ranker as load_ranker
from prsrank.rankers.lambdamart import LambdaMART as LambdaMART
from prsrank.rankers.linear import LinearRanker as LinearRanker
from prsrank.weighting import prs_weights as prs_weights

__version__: str
__all__: list[str]
