/** Which results are shown; what is chosen stands in the address. */
import { X } from 'lucide-react';
import { useRef, type ReactNode } from 'react';
import { useCommand } from '@/app/commands';
import type { Evaluation } from '@/evaluations/queries';
import { SearchBox } from '@/components/search-box';
import { Button } from '@/components/button';
import { Select } from '@/components/form-fields';
import { NOTHING, isFiltered, type Ask, type Asked } from './asked';

const FIELD = '!h-8 !w-auto max-w-44 min-w-0 text-[13px]';
const OUTCOMES = { '': 'Any outcome', yes: 'Passed', no: 'Not passed', failed: 'No answer', error: 'Evaluator erred' };

export function Filters({ evaluation, asked, ask }: { evaluation: Evaluation; asked: Asked; ask: Ask }): ReactNode {
  const field = useRef<HTMLInputElement>(null);
  useCommand({ id: 'results-search', title: 'Search the results', group: 'Evaluations', keys: '/', run: () => field.current?.focus() });
  const outcome = asked.status === 'failed' || asked.status === 'error' ? asked.status : asked.passed === null ? '' : asked.passed ? 'yes' : 'no';
  const choose = (value: string) =>
    ask({ ...asked, passed: value === 'yes' ? true : value === 'no' ? false : null, status: value === 'failed' || value === 'error' ? value : null });
  return (
    <div data-above role="group" aria-label="Filters" className="flex flex-wrap items-center gap-2 px-4 py-2.5 sm:px-6">
      <h2 className="mr-1 font-semibold">Results</h2>
      <SearchBox value={asked.search} onChange={(search) => ask({ ...asked, search }, { replace: true })} field={field} placeholder="Search what was asked and answered" />
      {evaluation.variants.length > 1 && (
        <Choice label="Variant" all="All variants" value={asked.variant} options={evaluation.variants.map(({ name }) => name)} onChange={(variant) => ask({ ...asked, variant })} />
      )}
      {evaluation.evaluators.length > 1 && (
        <Choice label="Evaluator" all="Any evaluator" value={asked.evaluator} options={evaluation.evaluators.map(({ name }) => name)} onChange={(evaluator) => ask({ ...asked, evaluator })} />
      )}
      <Select aria-label="Outcome" className={FIELD} value={outcome} onChange={(event) => choose(event.target.value)}>
        {Object.entries(OUTCOMES).map(([value, title]) => <option key={value} value={value}>{title}</option>)}
      </Select>
      {(evaluation.repeats > 1 || asked.flaky) && (
        <Button aria-pressed={asked.flaky} className={asked.flaky ? '!border-accent !text-accent' : ''} onClick={() => ask({ ...asked, flaky: !asked.flaky })}>Flaky</Button>
      )}
      {isFiltered(asked) && <Button look="quiet" onClick={() => ask({ ...NOTHING, slice: asked.slice })}><X aria-hidden className="size-4" />Clear</Button>}
    </div>
  );
}

interface ChoiceProps {
  label: string;
  all: string;
  value: string | null;
  options: readonly string[];
  onChange: (value: string | null) => void;
}

function Choice({ label, all, value, options, onChange }: ChoiceProps): ReactNode {
  return (
    <Select aria-label={label} className={FIELD} value={value ?? ''} onChange={(event) => onChange(event.target.value || null)}>
      <option value="">{all}</option>
      {value && !options.includes(value) && <option>{value}</option>}
      {options.map((one) => <option key={one}>{one}</option>)}
    </Select>
  );
}
