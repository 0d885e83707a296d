/** Dialog for a new review: answers, questions and number of reviewers. */
import { useInfiniteQuery, useMutation, useQuery } from '@tanstack/react-query';
import { Plus, X } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { useLocation } from 'wouter';
import { api } from '@/api/client';
import { Button, IconButton } from '@/components/button';
import { Dialog } from '@/components/dialog';
import {
  FormSection,
  Select,
  Switch,
  TextField,
  LabeledField,
  TextArea,
  SegmentedControl,
} from '@/components/form-fields';
import { ErrorMessage } from '@/components/status';
import { cn } from '@/lib/cn';
import { pluralize } from '@/lib/format';
import { useTitle } from '@/lib/hooks';
import { evaluationTitle } from '@/pages/evaluations/format';
import { evaluationQuery, evaluationPagesQuery } from '@/pages/evaluations/queries';
import {
  initialDraft,
  missingField,
  draftRequest,
  type ReviewDraft,
  QUESTION_KINDS,
  newQuestion,
  slug,
  type QuestionKind,
  type QuestionDraft,
} from './draft';
import { invalidateReview } from './queries';

export default function NewDialog({ run, onClose }: { run: string | null; onClose: () => void }): ReactNode {
  useTitle('New review');
  const [, navigate] = useLocation();
  const [draft, setDraft] = useState<ReviewDraft>(() => initialDraft(run));
  const change = (patch: Partial<ReviewDraft>) => setDraft((before) => ({ ...before, ...patch }));
  const evaluation = useQuery({ ...evaluationQuery(draft.run ?? ''), enabled: draft.run !== null });
  const create = useMutation({
    mutationFn: () => api('post', '/api/reviews', { body: draftRequest(draft) }),
    onSuccess: ({ id }) => {
      invalidateReview(id);
      navigate(`/reviews/${id}`);
    },
  });
  const missing = missingField(draft);
  return (
    <Dialog open wide onClose={onClose} title="New review" description="Reviewers rate answers one at a time.">
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (!missing) create.mutate();
        }}
      >
        <FormSection title="Answers" hint="Answers to review. The selection cannot be changed later.">
          <AnswersFields draft={draft} onChange={change} />
          {evaluation.error && (
            <div className="mt-2">
              <ErrorMessage error={evaluation.error} />
            </div>
          )}
        </FormSection>
        <QuestionsSection
          questions={draft.questions}
          hasHumanEvaluators={evaluation.data?.evaluators.some(({ key }) => key === 'human') ?? false}
          onChange={(questions) => change({ questions })}
        />
        <FormSection title="Reviewers">
          <div className="flex flex-wrap items-start gap-x-8 gap-y-3">
            <LabeledField label="Reviewers" hint="per item">
              <TextField
                type="number"
                min={1}
                max={50}
                className="w-28"
                value={draft.reviewers}
                onChange={({ target }) =>
                  change({ reviewers: Math.max(1, Math.min(50, Math.round(Number(target.value) || 1))) })
                }
              />
            </LabeledField>
            <div className="flex items-start gap-3">
              <Switch label="Blind" checked={draft.blind} onChange={(blind) => change({ blind })} />
              <span>
                <span className="font-medium">Blind</span>
                <span className="block text-[13px] text-muted">
                  Hide scores and variants, and show expected answers only on demand.
                </span>
              </span>
            </div>
          </div>
        </FormSection>
        <FormSection title="Name">
          <TextField
            dir="auto"
            aria-label="Name of the review"
            maxLength={200}
            placeholder={evaluation.data ? `Review of ${evaluationTitle(evaluation.data)}` : 'Name (optional)'}
            value={draft.name}
            onChange={(event) => change({ name: event.target.value })}
          />
        </FormSection>
        <footer
          className={cn(
            'sticky -bottom-5 -mx-5 -mb-5 flex flex-wrap items-center',
            'gap-3 rounded-b-2xl border-t bg-surface px-5 py-3',
          )}
        >
          <div className="min-w-0 grow basis-40 text-[13px] text-muted">
            {create.error ? (
              <ErrorMessage error={create.error} />
            ) : (
              (missing ?? `${pluralize(draft.reviewers, 'reviewer')} per item`)
            )}
          </div>
          <div className="ml-auto flex gap-2">
            <Button onClick={onClose}>Cancel</Button>
            <Button variant="main" type="submit" disabled={missing !== null || create.isPending}>
              {create.isPending ? 'Starting…' : 'Start review'}
            </Button>
          </div>
        </footer>
      </form>
    </Dialog>
  );
}

function AnswersFields({
  draft,
  onChange,
}: {
  draft: ReviewDraft;
  onChange: (patch: Partial<ReviewDraft>) => void;
}): ReactNode {
  const { data } = useInfiniteQuery(evaluationPagesQuery('', null));
  const evaluations = data?.pages.flatMap((page) => page.data).filter(({ done }) => done > 0) ?? [];
  const evaluation = useQuery({ ...evaluationQuery(draft.run ?? ''), enabled: draft.run !== null }).data;
  const filterText = draft.evaluator ? `${draft.passed ? 'passed' : 'failed'} ${draft.evaluator}` : '';
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      <LabeledField label="Evaluation">
        <Select
          value={draft.run ?? ''}
          onChange={({ target }) =>
            onChange({
              run: target.value || null,
              variant: '',
              evaluator: '',
              ...(draft.questions ? {} : { questions: initialDraft(null).questions }),
            })
          }
        >
          <option value="">Choose…</option>
          {draft.run && !evaluations.some(({ id }) => id === draft.run) && (
            <option value={draft.run}>{evaluation ? evaluationTitle(evaluation) : draft.run}</option>
          )}
          {evaluations.map((option) => (
            <option key={option.id} value={option.id}>
              {evaluationTitle(option)} ({pluralize(option.done, 'answer')})
            </option>
          ))}
        </Select>
      </LabeledField>
      <LabeledField label="Variant">
        <Select
          value={draft.variant}
          disabled={!evaluation}
          onChange={({ target }) => onChange({ variant: target.value })}
        >
          <option value="">All</option>
          {evaluation?.variants.map(({ name }) => (
            <option key={name}>{name}</option>
          ))}
        </Select>
      </LabeledField>
      <LabeledField label="Filter">
        <Select
          value={filterText}
          disabled={!evaluation}
          onChange={({ target }) => {
            const [outcome = '', ...evaluatorWords] = target.value.split(' ');
            onChange({ evaluator: evaluatorWords.join(' '), passed: outcome === 'passed' });
          }}
        >
          <option value="">All answers</option>
          {evaluation?.evaluators.map(({ name }) => (
            <option key={`failed ${name}`} value={`failed ${name}`}>
              Failed {name}
            </option>
          ))}
          {evaluation?.evaluators.map(({ name }) => (
            <option key={`passed ${name}`} value={`passed ${name}`}>
              Passed {name}
            </option>
          ))}
        </Select>
      </LabeledField>
      <LabeledField label="Random sample size">
        <TextField
          type="number"
          min={1}
          max={10_000}
          placeholder="All"
          value={draft.sample}
          onChange={({ target }) => onChange({ sample: target.value })}
        />
      </LabeledField>
    </div>
  );
}

type Questions = readonly QuestionDraft[] | null;
const QUESTION_SOURCES = { run: 'From the evaluation', own: 'Custom' };

/** Questions of four kinds, or those of the evaluation's `human` evaluators. */
export function QuestionsSection({
  questions,
  hasHumanEvaluators,
  onChange,
}: {
  questions: Questions;
  hasHumanEvaluators: boolean;
  onChange: (questions: Questions) => void;
}): ReactNode {
  const questionDrafts = questions ?? [];
  return (
    <FormSection title="Questions" hint="Asked about every answer.">
      {hasHumanEvaluators && (
        <div className="mb-2">
          <SegmentedControl
            label="Question source"
            options={QUESTION_SOURCES}
            value={questions ? 'own' : 'run'}
            onChange={(source) => onChange(source === 'run' ? null : initialDraft(null).questions)}
          />
        </div>
      )}
      {questions === null && (
        <p className="text-[13px] text-muted">
          Reviewers’ answers become the scores of the evaluation’s <Code>human</Code> evaluators.
        </p>
      )}
      <div className="flex flex-col gap-2">
        {questionDrafts.map((draft, index) => (
          <QuestionForm
            key={draft.id}
            draft={draft}
            index={index}
            onChange={(next) => onChange(questionDrafts.with(index, next))}
            {...(questionDrafts.length > 1 ? { onRemove: () => onChange(questionDrafts.toSpliced(index, 1)) } : {})}
          />
        ))}
      </div>
      {questions && questionDrafts.length < 50 && (
        <Button size="small" className="mt-2" onClick={() => onChange([...questionDrafts, newQuestion()])}>
          <Plus aria-hidden className="size-3.5" />
          Add a question
        </Button>
      )}
    </FormSection>
  );
}

interface Props {
  draft: QuestionDraft;
  index: number;
  onChange: (draft: QuestionDraft) => void;
  onRemove?: () => void;
}

function QuestionForm({ draft, index, onChange, onRemove }: Props): ReactNode {
  const change = (patch: Partial<QuestionDraft>) => onChange({ ...draft, ...patch });
  return (
    <div
      role="group"
      aria-label={`Question ${index + 1}`}
      className="relative flex min-w-0 flex-col gap-3 rounded-xl border px-3 py-2.5"
    >
      <div className="grid gap-3 sm:grid-cols-[minmax(0,1fr)_9rem_9rem] sm:pr-8">
        <div className="max-sm:pr-8">
          <LabeledField label="Question">
            <TextField
              dir="auto"
              maxLength={500}
              placeholder="Is it polite?"
              value={draft.title}
              onChange={({ target }) => change({ title: target.value })}
            />
          </LabeledField>
        </div>
        <LabeledField label="Answer">
          <Select value={draft.type} onChange={({ target }) => change({ type: target.value as QuestionKind })}>
            {Object.entries(QUESTION_KINDS).map(([kind, label]) => (
              <option key={kind} value={kind}>
                {label}
              </option>
            ))}
          </Select>
        </LabeledField>
        <LabeledField label="Key" hint="column name">
          <TextField
            dir="auto"
            maxLength={100}
            placeholder={slug(draft.title)}
            value={draft.key}
            onChange={({ target }) => change({ key: target.value })}
          />
        </LabeledField>
      </div>
      {draft.type === 'choice' && (
        <LabeledField label="Choices" hint="one per line">
          <TextArea
            dir="auto"
            rows={3}
            placeholder={'kind\nneutral\nrude'}
            value={draft.choices}
            onChange={({ target }) => change({ choices: target.value })}
          />
        </LabeledField>
      )}
      {draft.type === 'score' && (
        <div className="flex gap-3">
          <LabeledField label="Lowest">
            <TextField
              type="number"
              step="any"
              className="w-24"
              value={draft.min}
              onChange={({ target }) => change({ min: target.value })}
            />
          </LabeledField>
          <LabeledField label="Highest">
            <TextField
              type="number"
              step="any"
              className="w-24"
              value={draft.max}
              onChange={({ target }) => change({ max: target.value })}
            />
          </LabeledField>
        </div>
      )}
      {/* oxlint-disable-next-line jsx-a11y/label-has-associated-control -- the field is its child */}
      <label className="flex w-fit items-center gap-2">
        <input
          type="checkbox"
          className="size-4 accent-accent"
          checked={draft.required}
          onChange={({ target }) => change({ required: target.checked })}
        />
        Required
      </label>
      {onRemove && (
        <IconButton
          label={`Remove question ${index + 1}`}
          size="small"
          className="absolute top-2 right-2"
          onClick={onRemove}
        >
          <X />
        </IconButton>
      )}
    </div>
  );
}

const Code = ({ children }: { children: ReactNode }): ReactNode => (
  <code className="font-mono text-xs">{children}</code>
);
