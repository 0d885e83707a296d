/** /evaluations/online: rules that score live traffic. */
import { useInfiniteQuery, useMutation, useQuery } from '@tanstack/react-query';
import { Plus, Radio, MoreHorizontal, Trash2 } from 'lucide-react';
import { lazy, Suspense, type ReactNode } from 'react';
import { useSearchParams } from 'wouter';
import { api } from '@/api/client';
import { queryClient } from '@/api/queries';
import { useCommand } from '@/app/commands';
import { Button, IconButton } from '@/components/button';
import { askConfirmation } from '@/components/confirm-dialog';
import { Switch } from '@/components/form-fields';
import { Menu, MenuItem } from '@/components/menu';
import { EmptyState, LoadError, MoreButton, ErrorMessage, Spinner } from '@/components/status';
import { showError } from '@/components/toast';
import { pluralize } from '@/lib/format';
import { useTitle } from '@/lib/hooks';
import { safeProse } from '@/lib/safe-text';
import { formatPercent, formatScore } from '@/pages/evaluations/format';
import {
  rulePagesQuery,
  STATS_DAYS,
  ruleStatsQuery,
  type Rule,
  formatFilter,
  formatSample,
  evaluatorTotals,
  type EvaluatorTotal,
  type RuleStats,
} from './rules';

const NewDialog = lazy(() => import('./new-dialog'));

export default function LiveRulesPage(): ReactNode {
  useTitle('Live evaluators');
  const [params, setParams] = useSearchParams();
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(rulePagesQuery());
  const rules = data?.pages.flatMap((page) => page.data) ?? [];
  const open = () => setParams({ new: '1' });
  useCommand({ id: 'new-rule', title: 'New live evaluator', group: 'Live evaluators', run: open });
  return (
    <div className="flex h-full flex-col">
      <header className="flex shrink-0 flex-wrap items-center gap-2 border-b bg-surface px-4 py-2.5 sm:px-6">
        <h1 className="mr-auto text-base font-semibold">Live evaluators</h1>
        <Button variant="main" onClick={open}>
          <Plus aria-hidden className="size-4" />
          New live evaluator
        </Button>
      </header>
      <div className="min-h-0 grow overflow-y-auto px-4 py-4 sm:px-6">
        {error && !data && <LoadError error={error} onRetry={refetch} />}
        {!data && !error && <Spinner />}
        {data && rules.length === 0 && (
          <EmptyState title="No live evaluators yet" icon={<Radio />}>
            <p>A live evaluator scores a sample of your traffic as traces arrive and shows how many pass.</p>
            <p className="my-4">
              <Button variant="main" onClick={open}>
                <Plus aria-hidden className="size-4" />
                New live evaluator
              </Button>
            </p>
          </EmptyState>
        )}
        <ul aria-label="Live evaluators" className="mx-auto flex max-w-5xl flex-col gap-3">
          {rules.map((rule) => (
            <RuleCard key={rule.id} rule={rule} />
          ))}
        </ul>
        {hasNextPage && (
          <MoreButton busy={isFetchingNextPage} onClick={fetchNextPage} className="flex justify-center p-3" />
        )}
      </div>
      {params.get('new') === '1' && (
        <Suspense>
          <NewDialog onClose={() => setParams({})} />
        </Suspense>
      )}
    </div>
  );
}

const refreshRules = () => queryClient.invalidateQueries({ queryKey: ['rules'] });

/** A rule with its switch and recent scores. */
export function RuleCard({ rule }: { rule: Rule }): ReactNode {
  const path = { rule: rule.id };
  const toggle = useMutation({
    mutationFn: (enabled: boolean) => api('patch', '/api/online/{rule}', { path, body: { enabled } }),
    onSuccess: refreshRules,
    onError: showError,
  });
  const remove = async () => {
    if (
      !(await askConfirmation({
        title: 'Delete this live evaluator?',
        text: `“${rule.name}” and its scores will be deleted. The traces are kept.`,
        act: 'Delete',
        danger: true,
      }))
    )
      return;
    await api('delete', '/api/online/{rule}', { path });
    await refreshRules();
  };
  const enabled = toggle.isPending ? toggle.variables : rule.enabled;
  const subject = rule.session ? ' of sessions' : '';
  return (
    <li aria-label={rule.name} className="min-w-0 rounded-xl border bg-surface">
      <div className="flex items-start gap-3 px-4 py-3">
        <div className="min-w-0 grow">
          <h2 dir="auto" className="font-medium wrap-anywhere">
            {safeProse(rule.name)}
          </h2>
          <p dir="auto" className="text-[13px] wrap-anywhere text-muted">
            {safeProse(formatFilter(rule.filter))} · samples {formatSample(rule.sample)}
            {subject} · max {rule.per_minute.toLocaleString('en')}/min
          </p>
        </div>
        <span className="flex items-center gap-2 pt-0.5">
          <span aria-hidden className="text-[13px] text-muted">
            {enabled ? 'On' : 'Off'}
          </span>
          <Switch label={`Enable ${rule.name}`} checked={enabled} onChange={(isOn) => toggle.mutate(isOn)} />
        </span>
        <Menu
          trigger={
            <IconButton label={`More actions for ${rule.name}`} size="small">
              <MoreHorizontal />
            </IconButton>
          }
        >
          <MenuItem icon={<Trash2 />} danger onSelect={() => void remove().catch(showError)}>
            Delete
          </MenuItem>
        </Menu>
      </div>
      <RuleFigures rule={rule} />
    </li>
  );
}

function RuleFigures({ rule }: { rule: Rule }): ReactNode {
  const { data, error } = useQuery(ruleStatsQuery(rule.id));
  const totals = evaluatorTotals(data?.data ?? []);
  const evaluatorsWithoutScores = rule.evaluators
    .map(({ name }) => name)
    .filter((name) => !totals.some(({ evaluator }) => evaluator === name || evaluator.startsWith(`${name}.`)));
  const emptyTotal = (evaluator: string): EvaluatorTotal => ({
    evaluator,
    n: 0,
    passRate: null,
    mean: null,
    skipped: 0,
    errors: 0,
  });
  const noun = rule.session ? 'session' : 'trace';
  return (
    <div className="border-t px-4 py-2">
      {error && <ErrorMessage error={error} />}
      <table className="w-full text-[13px]">
        <caption className="pb-1 text-left text-xs text-faint">
          {`Last ${STATS_DAYS} days`}
          {data && scoredText(data, noun)}
        </caption>
        <thead className="sr-only">
          <tr>
            <th scope="col">Evaluator</th>
            <th scope="col">Passed</th>
            <th scope="col">Scores</th>
          </tr>
        </thead>
        <tbody>
          {[...totals, ...evaluatorsWithoutScores.map(emptyTotal)].map((total) => (
            <FigureRow key={total.evaluator} total={total} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function FigureRow({ total: { evaluator, n, passRate, mean, skipped, errors } }: { total: EvaluatorTotal }): ReactNode {
  const details = [
    skipped > 0 && `${skipped.toLocaleString('en')} not scored`,
    errors > 0 && pluralize(errors, 'evaluator error'),
  ]
    .filter(Boolean)
    .join(', ');
  return (
    <tr className="[&>td]:py-0.5 [&>td]:pr-3 [&>td]:align-baseline">
      <td dir="auto" className="w-1/3 wrap-anywhere">
        {safeProse(evaluator)}
      </td>
      <td className="w-1/3 tabular-nums">{formatTotal(n, passRate, mean)}</td>
      <td className="text-muted tabular-nums">
        {pluralize(n, 'score')}
        {details && <span className={errors > 0 ? 'text-warn' : undefined}> · {details}</span>}
      </td>
    </tr>
  );
}

function formatTotal(n: number, passRate: number | null, mean: number | null): string {
  if (n === 0) return 'No scores yet';
  if (passRate !== null) return `${formatPercent(passRate)} passed`;
  return mean === null ? '–' : `mean ${formatScore(mean)}`;
}

const scoredText = ({ done, waiting, dropped }: RuleStats, noun: string): string =>
  ` · ${pluralize(done, noun)} scored${countText(waiting, 'waiting')}${countText(dropped, 'dropped')}`;

const countText = (count: number, word: string): string => (count > 0 ? `, ${count.toLocaleString('en')} ${word}` : '');
