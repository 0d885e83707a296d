/** Dialog for a new evaluation: test set, variants, evaluators. Server errors are shown at their fields. */
import { useMutation, useQuery } from '@tanstack/react-query';
import { useEffect, useRef, useState, type ReactNode } from 'react';
import { useLocation, Link } from 'wouter';
import { ApiError, api } from '@/api/client';
import { queryClient } from '@/api/queries';
import { completeStep } from '@/app/tour/progress';
import { Button } from '@/components/button';
import { CollapsibleSection } from '@/components/collapsible';
import { askConfirmation } from '@/components/confirm-dialog';
import { Dialog } from '@/components/dialog';
import { TextField, LabeledField, FieldErrors, Select, FormSection } from '@/components/form-fields';
import { isEqual, type FieldError } from '@/components/forms/values';
import { LoadError, ErrorMessage, Spinner } from '@/components/status';
import { cn } from '@/lib/cn';
import { pluralize, formatAge } from '@/lib/format';
import { useTitle } from '@/lib/hooks';
import { MappingSection } from './column-map';
import {
  EMPTY_DRAFT,
  draftFromEvaluation,
  fieldTitle,
  missingPart,
  draftRequest,
  errorsUnder,
  errorsWithoutField,
  type EvaluationDraft,
} from './draft';
import { EvaluatorsSection } from './evaluators-section';
import { evaluationQuery, testsetRevisionQuery, testsetRevisionsQuery, testsetsSearchQuery } from './queries';
import { VariantsSection } from './variants-section';

interface NewDialogProps {
  testset: string | null;
  /** Evaluation to copy the settings from. */
  template: string | null;
  onClose: () => void;
}

export default function NewDialog({ testset, template, onClose }: NewDialogProps): ReactNode {
  const { data, error } = useQuery({ ...evaluationQuery(template ?? ''), enabled: template !== null });
  if (template === null) return <Form initialDraft={{ ...EMPTY_DRAFT, testset }} onClose={onClose} />;
  if (data) return <Form initialDraft={draftFromEvaluation(data)} onClose={onClose} />;
  return (
    <Dialog open wide onClose={onClose} title="New evaluation">
      {error ? <ErrorMessage error={error} /> : <Spinner />}
    </Dialog>
  );
}

function sizeText({ variants, repeats }: EvaluationDraft, rows: number, cells: number): string {
  const suffix = repeats > 1 ? ` × ${repeats} repeats` : '';
  return `${pluralize(rows, 'row')} × ${pluralize(variants.length, 'variant')}${suffix}: ${pluralize(cells, 'cell')}`;
}

const LEAVE_QUESTION = {
  title: 'Discard this evaluation?',
  text: 'Your changes will be lost.',
  act: 'Discard',
  danger: true,
};

function Form({ initialDraft, onClose }: { initialDraft: EvaluationDraft; onClose: () => void }): ReactNode {
  useTitle('New evaluation');
  const [, navigate] = useLocation();
  const [initial] = useState(initialDraft);
  const [draft, setDraft] = useState(initialDraft);
  const change = (patch: Partial<EvaluationDraft>) => setDraft((before) => ({ ...before, ...patch }));
  const revision = useQuery({
    ...testsetRevisionQuery(draft.testset ?? '', draft.revision),
    enabled: draft.testset !== null,
  });
  const columns = revision.data?.kinds ?? [];
  const start = useMutation({
    mutationFn: () => api('post', '/api/evaluations', { body: draftRequest(draft) }),
    onSuccess: ({ id }) => {
      completeStep('evaluate');
      void queryClient.invalidateQueries({ queryKey: ['evaluations'] });
      navigate(`/evaluations/${id}`);
    },
  });
  // Confirm, because a click outside closes the dialog.
  const confirmClose = async () => {
    const isTouched = !isEqual(draftRequest(draft), draftRequest(initial));
    if (!isTouched || (await askConfirmation(LEAVE_QUESTION))) onClose();
  };
  const errors = serverErrors(start.error);
  const form = useRef<HTMLFormElement>(null);
  const path = errors[0]?.path ?? '';
  useEffect(() => {
    const [firstError] = serverErrors(start.error);
    if (form.current && firstError) focusField(form.current, firstError.path);
  }, [start.error]);
  const missing = missingPart(draft);
  const rows = Math.min(draft.sample ?? Number.POSITIVE_INFINITY, revision.data?.rows ?? 0);
  const cells = rows * draft.variants.length * draft.repeats;
  return (
    <Dialog open wide onClose={() => void confirmClose()} title="New evaluation">
      <form
        ref={form}
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (!missing) start.mutate();
        }}
      >
        <div className="pb-4">
          <LabeledField label="Name" hint="optional">
            <TextField
              dir="auto"
              maxLength={200}
              placeholder="For example: prompt v3"
              value={draft.name}
              onChange={(event) => change({ name: event.target.value })}
            />
          </LabeledField>
        </div>
        <TestsetSection draft={draft} onChange={change} errors={errors} />
        <VariantsSection
          drafts={draft.variants}
          columns={columns}
          onChange={(variants) => change({ variants })}
          errors={errors}
        />
        <EvaluatorsSection
          drafts={draft.evaluators}
          onChange={(evaluators) => change({ evaluators })}
          serverErrors={errors}
        />
        {columns.length > 0 && (
          <MappingSection
            map={draft.map}
            columns={columns}
            variants={draft.variants}
            onChange={(map) => change({ map })}
            errors={errors}
          />
        )}
        <Options draft={draft} onChange={change} errors={errors} />
        <footer
          className={cn(
            'sticky -bottom-5 -mx-5 -mb-5 flex flex-wrap items-center',
            'gap-3 rounded-b-2xl border-t bg-surface px-5 py-3',
          )}
        >
          <div className="min-w-0 grow basis-40 text-[13px] text-muted">
            {missing ?? (cells > 0 && sizeText(draft, rows, cells))}
            <FieldErrors errors={errorsWithoutField(errors)} />
            {path && errorsWithoutField(errors).length === 0 && (
              <p role="status" className="text-xs text-bad">
                Fix this field:{' '}
                <button
                  type="button"
                  className="font-medium wrap-anywhere underline"
                  onClick={() => form.current && focusField(form.current, path)}
                >
                  {fieldTitle(path, draft.evaluators)}
                </button>
              </p>
            )}
          </div>
          <Button onClick={() => void confirmClose()}>Cancel</Button>
          <Button variant="main" type="submit" disabled={missing !== null || start.isPending}>
            {start.isPending ? 'Starting…' : 'Run'}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

function serverErrors(error: Error | null): readonly FieldError[] {
  if (!error) return [];
  return [{ path: error instanceof ApiError ? (error.path ?? '') : '', message: error.message }];
}

interface OptionsProps {
  draft: EvaluationDraft;
  onChange: (draft: Partial<EvaluationDraft>) => void;
  errors: readonly FieldError[];
}

function Options({ draft, onChange, errors }: OptionsProps): ReactNode {
  const limitErrors = [...errorsUnder(errors, '/limits'), ...errorsUnder(errors, '/repeats')];
  const hasError = (path: string) => errorsUnder(errors, path).length > 0;
  return (
    <CollapsibleSection key={String(limitErrors.length > 0)} title="Repeats and limits" open={limitErrors.length > 0}>
      <div className="grid gap-3 py-1 pl-5 sm:grid-cols-4">
        <NumberField
          label="Repeats"
          path="/repeats"
          invalid={hasError('/repeats')}
          hint="per row"
          min={1}
          max={100}
          value={draft.repeats}
          onChange={(repeats) => onChange({ repeats })}
        />
        <NumberField
          label="Concurrency"
          path="/limits/concurrency"
          invalid={hasError('/limits/concurrency')}
          hint="calls at once"
          min={1}
          max={1000}
          value={draft.concurrency}
          onChange={(concurrency) => onChange({ concurrency })}
        />
        <NumberField
          label="Timeout"
          path="/limits/timeout"
          invalid={hasError('/limits/timeout')}
          hint="seconds"
          min={1}
          max={86_400}
          value={draft.timeout}
          onChange={(timeout) => onChange({ timeout })}
        />
        <NumberField
          label="Retries"
          path="/limits/retries"
          invalid={hasError('/limits/retries')}
          hint="per call"
          min={0}
          max={20}
          value={draft.retries}
          onChange={(retries) => onChange({ retries })}
        />
      </div>
      <div className="pl-5">
        <FieldErrors errors={limitErrors} />
      </div>
    </CollapsibleSection>
  );
}

interface NumberProps {
  label: string;
  hint: string;
  /** JSON pointer of the value. */
  path: string;
  invalid: boolean;
  min: number;
  max: number;
  value: number;
  onChange: (value: number) => void;
}

/** While the field is empty the last valid number is kept. */
function NumberField({ label, hint, path, invalid, min, max, value, onChange }: NumberProps): ReactNode {
  const [text, setText] = useState(String(value));
  return (
    <div data-at={path}>
      <LabeledField label={label} hint={hint}>
        <TextField
          type="number"
          aria-invalid={invalid}
          min={min}
          max={max}
          value={text}
          onChange={({ target }) => {
            setText(target.value);
            if (target.value !== '' && Number.isFinite(Number(target.value)))
              onChange(Math.max(min, Math.min(max, Number(target.value))));
          }}
          onBlur={() => setText(String(value))}
        />
      </LabeledField>
    </div>
  );
}

interface TestsetSectionProps {
  draft: EvaluationDraft;
  onChange: (draft: Partial<EvaluationDraft>) => void;
  errors: readonly FieldError[];
}

export function TestsetSection({ draft, onChange, errors }: TestsetSectionProps): ReactNode {
  const { data, error, refetch } = useQuery(testsetsSearchQuery(''));
  const revisions = useQuery({ ...testsetRevisionsQuery(draft.testset ?? ''), enabled: draft.testset !== null });
  const testsets = data?.data ?? [];
  const testsetErrors = errorsUnder(errors, '/testset');
  const hasError = (path: string) => errorsUnder(testsetErrors, path).length > 0;
  return (
    <FormSection title="Test set" path="/testset">
      {error && <LoadError error={error} onRetry={refetch} />}
      {!data && !error && <Spinner />}
      {data && testsets.length === 0 && (
        <p className="text-muted">
          No test sets yet.{' '}
          <Link href="/testsets" className="text-accent underline">
            Import or create one
          </Link>{' '}
          first.
        </p>
      )}
      {testsets.length > 0 && (
        <div className="mt-2 grid gap-3 sm:grid-cols-[minmax(0,2fr)_minmax(0,2fr)_minmax(0,1fr)]">
          <LabeledField label="Test set">
            <Select
              value={draft.testset ?? ''}
              aria-invalid={hasError('/id')}
              onChange={(event) => onChange({ testset: event.target.value || null, revision: 'head', map: {} })}
            >
              <option value="">Choose…</option>
              {draft.testset && !testsets.some(({ id }) => id === draft.testset) && (
                <option value={draft.testset}>{draft.testset}</option>
              )}
              {testsets.map(({ id, name, rows }) => (
                <option key={id} value={id}>
                  {name} ({pluralize(rows, 'row')})
                </option>
              ))}
            </Select>
          </LabeledField>
          <LabeledField label="Revision">
            <Select
              disabled={!draft.testset}
              value={draft.revision}
              aria-invalid={hasError('/revision')}
              onChange={(event) => onChange({ revision: event.target.value, map: {} })}
            >
              <option value="head">Latest</option>
              {revisions.data?.data.map(({ revision, message, created_at: createdAt }) => (
                <option key={revision} value={String(revision)}>
                  {revision}
                  {message && `, ${message.slice(0, 60)}`} ({formatAge(createdAt)})
                </option>
              ))}
            </Select>
          </LabeledField>
          <LabeledField label="Rows">
            <TextField
              type="number"
              min={1}
              placeholder="All"
              aria-invalid={hasError('/rows')}
              title="Random sample size; empty for all rows"
              value={draft.sample ?? ''}
              onChange={(event) =>
                onChange({
                  sample: event.target.value === '' ? null : Math.max(1, Math.floor(Number(event.target.value))),
                })
              }
            />
          </LabeledField>
        </div>
      )}
      <FieldErrors errors={testsetErrors} />
    </FormSection>
  );
}

const FIELD_SELECTOR = 'input, select, textarea, [contenteditable="true"]';

/** Focus and scroll to the field of a pointer. */
export function focusField(form: HTMLElement, path: string): void {
  const parts = [...form.querySelectorAll<HTMLElement>('[data-at]')].filter(
    ({ dataset: { at = '' } }) => path === at || path.startsWith(`${at}/`),
  );
  // A nested section comes later in the document and is the closer match.
  const part = parts.at(-1);
  const field =
    part?.querySelector<HTMLElement>('[aria-invalid="true"]') ??
    part?.querySelector('[role=alert]')?.parentElement?.querySelector<HTMLElement>(FIELD_SELECTOR) ??
    part?.querySelector<HTMLElement>(FIELD_SELECTOR);
  field?.focus({ preventScroll: true });
  (field ?? part)?.scrollIntoView({ block: 'center' });
}
