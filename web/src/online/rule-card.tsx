/** One rule: what it means, whether it is on, and what its evaluators said lately. */
import { useMutation, useQuery } from '@tanstack/react-query';
import { MoreHorizontal, Trash2 } from 'lucide-react';
import type { ReactNode } from 'react';
import { api } from '@/api/client';
import { queryClient } from '@/api/queries';
import { percent, score } from '@/evaluations/words';
import { prose } from '@/lib/safe-text';
import { pluralize } from '@/lib/format';
import { askYes } from '@/components/confirm-dialog';
import { Problem } from '@/components/status';
import { IconButton } from '@/components/button';
import { Switch } from '@/components/form-fields';
import { Menu, MenuItem } from '@/components/menu';
import { tellError } from '@/components/toast';
import { DAYS, ruleStats, type Rule } from './queries';
import { filterWords, share, totals, type Total } from './words';

const fresh = () => queryClient.invalidateQueries({ queryKey: ['rules'] });

export function RuleCard({ rule }: { rule: Rule }): ReactNode {
  const path = { rule: rule.id };
  const turn = useMutation({ mutationFn: (enabled: boolean) => api('patch', '/api/online/{rule}', { path, body: { enabled } }), onSuccess: fresh, onError: tellError });
  const remove = async () => {
    if (!(await askYes({ title: 'Delete this rule?', text: 'Its scores go with it. The traces stay.', act: 'Delete', danger: true }))) return;
    await api('delete', '/api/online/{rule}', { path });
    await fresh();
  };
  const enabled = turn.isPending ? turn.variables : rule.enabled;
  return (
    <li aria-label={rule.name} className="min-w-0 rounded-xl border bg-surface">
      <div className="flex items-start gap-3 px-4 py-3">
        <div className="min-w-0 grow">
          <h2 dir="auto" className="font-medium wrap-anywhere">{prose(rule.name)}</h2>
          <p dir="auto" className="text-[13px] wrap-anywhere text-muted">
            {prose(filterWords(rule.filter))} · {share(rule.sample)} of {rule.session ? 'sessions' : 'them'} · at most {rule.per_minute.toLocaleString('en')} a minute
          </p>
        </div>
        <span className="flex items-center gap-2 pt-0.5"><span aria-hidden className="text-[13px] text-muted">{enabled ? 'On' : 'Off'}</span><Switch label={`Score with ${rule.name}`} checked={enabled} onChange={(on) => turn.mutate(on)} /></span>
        <Menu trigger={<IconButton label={`More of ${rule.name}`} size="small"><MoreHorizontal /></IconButton>}>
          <MenuItem icon={<Trash2 />} danger onSelect={() => void remove().catch(tellError)}>Delete</MenuItem>
        </Menu>
      </div>
      <Figures rule={rule} />
    </li>
  );
}

function Figures({ rule }: { rule: Rule }): ReactNode {
  const { data, error } = useQuery(ruleStats(rule.id));
  const said = totals(data?.data ?? []);
  const rows = rule.evaluators.map(({ name }) => name).filter((name) => !said.some(({ evaluator }) => evaluator === name || evaluator.startsWith(`${name}.`)));
  const none = (evaluator: string): Total => ({ evaluator, n: 0, passRate: null, mean: null, skipped: 0, errors: 0 });
  const thing = rule.session ? 'session' : 'trace';
  return (
    <div className="border-t px-4 py-2">
      {error && <Problem error={error} />}
      <table className="w-full text-[13px]">
        <caption className="pb-1 text-left text-xs text-faint">
          {`Last ${DAYS} days`}{data && ` · ${pluralize(data.done, thing)} scored in all${data.waiting > 0 ? `, ${data.waiting.toLocaleString('en')} waiting` : ''}${data.dropped > 0 ? `, ${data.dropped.toLocaleString('en')} dropped` : ''}`}
        </caption>
        <thead className="sr-only"><tr><th scope="col">Evaluator</th><th scope="col">Passed</th><th scope="col">Scores</th></tr></thead>
        <tbody>{[...said, ...rows.map(none)].map((total) => <FigureRow key={total.evaluator} total={total} />)}</tbody>
      </table>
    </div>
  );
}

function FigureRow({ total: { evaluator, n, passRate, mean, skipped, errors } }: { total: Total }): ReactNode {
  const rest = [skipped > 0 && `${skipped.toLocaleString('en')} skipped`, errors > 0 && pluralize(errors, 'error')].filter(Boolean).join(', ');
  return (
    <tr className="[&>td]:py-0.5 [&>td]:pr-3 [&>td]:align-baseline">
      <td dir="auto" className="w-1/3 wrap-anywhere">{prose(evaluator)}</td>
      <td className="w-1/3 tabular-nums">{figure(n, passRate, mean)}</td>
      <td className="text-muted tabular-nums">{pluralize(n, 'score')}{rest && <span className={errors > 0 ? 'text-warn' : undefined}> · {rest}</span>}</td>
    </tr>
  );
}

function figure(n: number, passRate: number | null, mean: number | null): string {
  if (n === 0) return 'Nothing yet';
  if (passRate !== null) return `${percent(passRate)} passed`;
  return mean === null ? '–' : `${score(mean)} on average`;
}
