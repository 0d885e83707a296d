/** Dialog for a new online rule: filter, sample and evaluators. */
import { useMutation } from '@tanstack/react-query';
import { Plus } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { ApiError, api } from '@/api/client';
import { queryClient } from '@/api/queries';
import { Button } from '@/components/button';
import { Dialog } from '@/components/dialog';
import { FieldErrors, FormSection, Switch, TextField, LabeledField } from '@/components/form-fields';
import { isObject } from '@/components/forms/json-schema';
import { cn } from '@/lib/cn';
import { useTitle } from '@/lib/hooks';
import type { EvaluatorDraft } from '@/pages/evaluations/draft';
import { EvaluatorsSection } from '@/pages/evaluations/evaluators-section';
import { ConditionChips, ConditionEditor } from '@/pages/traces/condition-editor';
import { queryFilter, EMPTY_QUERY, type TraceQuery } from '@/pages/traces/trace-query';

const NO_SEEN_VALUES = {};

export default function NewDialog({ onClose }: { onClose: () => void }): ReactNode {
  useTitle('New live evaluator');
  const [name, setName] = useState('');
  const [query, setQuery] = useState<TraceQuery>(EMPTY_QUERY);
  const [sample, setSample] = useState('10');
  const [perMinute, setPerMinute] = useState('60');
  const [session, setSession] = useState(false);
  const [evaluators, setEvaluators] = useState<readonly EvaluatorDraft[]>([]);
  const filter = queryFilter(query);
  const create = useMutation({
    mutationFn: () =>
      api('post', '/api/online', {
        body: {
          name: name.trim(),
          filter: isObject(filter) ? filter : null,
          sample: Number((Number(sample) / 100).toPrecision(6)),
          per_minute: Number(perMinute),
          session,
          evaluators: evaluators.map(evaluatorBody),
        },
      }),
    onSuccess: () => {
      void queryClient.invalidateQueries({ queryKey: ['rules'] });
      onClose();
    },
  });
  const errors = create.error
    ? [{ path: create.error instanceof ApiError ? (create.error.path ?? '') : '', message: create.error.message }]
    : [];
  const otherErrors = errors.filter(({ path }) => !path.startsWith('/evaluators'));
  const missing = missingField(name, sample, perMinute, evaluators.length);
  return (
    <Dialog open wide onClose={onClose} title="New live evaluator" description="Scores new traces as they arrive.">
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          // Submit events of the nested filter form bubble here.
          if (event.target === event.currentTarget && !missing) create.mutate();
        }}
      >
        <div className="pb-4">
          <LabeledField label="Name">
            <TextField
              dir="auto"
              maxLength={200}
              placeholder="Shop refusals"
              value={name}
              onChange={({ target }) => setName(target.value)}
            />
          </LabeledField>
        </div>
        <FormSection
          title="Traces"
          hint="Scores all traces unless you add a filter. Traces of evaluations and judges are always excluded."
        >
          <div className="-mx-4">
            <ConditionChips query={query} seenValues={NO_SEEN_VALUES} onChange={setQuery} />
          </div>
          <ConditionEditor
            seenValues={NO_SEEN_VALUES}
            onDone={(condition) => setQuery({ ...query, conditions: [...query.conditions, condition] })}
            trigger={
              <Button size="small">
                <Plus aria-hidden className="size-3.5" />
                Add a filter
              </Button>
            }
          />
          <div className="mt-3 flex flex-wrap items-start gap-x-6 gap-y-3">
            <LabeledField label="Sample" hint="percent">
              <NumberField min={0} max={100} step="any" value={sample} onChange={setSample} />
            </LabeledField>
            <LabeledField label="Limit" hint="per minute">
              <NumberField min={1} max={10_000} value={perMinute} onChange={setPerMinute} />
            </LabeledField>
            <SessionSwitch checked={session} onChange={setSession} />
          </div>
        </FormSection>
        <EvaluatorsSection drafts={evaluators} onChange={setEvaluators} serverErrors={errors} />
        <footer
          className={cn(
            'sticky -bottom-5 -mx-5 -mb-5 flex flex-wrap items-center',
            'gap-3 rounded-b-2xl border-t bg-surface px-5 py-3',
          )}
        >
          <div className="min-w-0 grow basis-40 text-[13px] text-muted">
            {missing}
            <FieldErrors errors={otherErrors} />
          </div>
          <div className="ml-auto flex gap-2">
            <Button onClick={onClose}>Cancel</Button>
            <Button variant="main" type="submit" disabled={missing !== null || create.isPending}>
              {create.isPending ? 'Creating…' : 'Create'}
            </Button>
          </div>
        </footer>
      </form>
    </Dialog>
  );
}

/** What is missing, as text; null if the rule can start. */
function missingField(name: string, sample: string, perMinute: string, evaluators: number): string | null {
  if (!name.trim()) return 'Enter a name.';
  if (sample.trim() === '' || !(Number(sample) > 0 && Number(sample) <= 100))
    return 'The sample must be more than 0% and at most 100%.';
  if (!(Number.isInteger(Number(perMinute)) && Number(perMinute) >= 1 && Number(perMinute) <= 10_000))
    return 'The limit must be between 1 and 10,000 per minute.';
  return evaluators === 0 ? 'Add an evaluator.' : null;
}

const evaluatorBody = ({ key, name, parameters }: EvaluatorDraft) => ({
  key,
  ...(name.trim() ? { name: name.trim() } : {}),
  parameters: { ...parameters },
});

interface NumberFieldProps {
  min: number;
  max: number;
  step?: 'any';
  value: string;
  onChange: (value: string) => void;
}

const NumberField = ({ onChange, ...inputProps }: NumberFieldProps): ReactNode => (
  <TextField type="number" className="w-28" onChange={({ target }) => onChange(target.value)} {...inputProps} />
);

const SessionSwitch = (props: { checked: boolean; onChange: (checked: boolean) => void }): ReactNode => (
  <div className="flex items-start gap-3">
    <Switch label="Whole sessions" {...props} />
    <span>
      <span className="font-medium">Whole sessions</span>
      <span className="block text-[13px] text-muted">
        Score each session as one conversation after 10 minutes of inactivity.
      </span>
    </span>
  </div>
);
