/** Evaluators of a new evaluation, with parameters and a tryout. */
import { useQuery, useMutation } from '@tanstack/react-query';
import { Plus, X } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { api } from '@/api/client';
import { Button, IconButton } from '@/components/button';
import { CollapsibleSection } from '@/components/collapsible';
import { TextField, LabeledField, FieldErrors, FormSection, Switch, TextArea } from '@/components/form-fields';
import { isObject, type JsonSchema } from '@/components/forms/json-schema';
import { SchemaForm } from '@/components/forms/schema-form';
import type { FieldError } from '@/components/forms/values';
import { Badge, ErrorMessage } from '@/components/status';
import { ProseWithCode } from '@/components/text';
import { focusRef } from '@/lib/dom';
import { searchByTitle } from '@/lib/fuzzy-search';
import { ScoreCard } from './badges';
import { newEvaluator, freeName, errorsUnder, type EvaluatorDraft, type ParameterValues } from './draft';
import { evaluatorsQuery, type Evaluator } from './queries';

interface Props {
  drafts: readonly EvaluatorDraft[];
  onChange: (drafts: readonly EvaluatorDraft[]) => void;
  serverErrors: readonly FieldError[];
}

export function EvaluatorsSection({ drafts, onChange, serverErrors }: Props): ReactNode {
  const { data, error } = useQuery(evaluatorsQuery());
  const evaluators = data?.data ?? [];
  const [adding, setAdding] = useState(drafts.length === 0);
  const add = ({ key }: Evaluator) => {
    const usedNames = drafts.map(({ name, key: evaluatorKey }) => name || evaluatorKey);
    const name = freeName(key, usedNames);
    onChange([...drafts, { ...newEvaluator(key), name: name === key ? '' : name }]);
    setAdding(false);
  };
  return (
    <FormSection title="Evaluators" hint="Every answer is scored by each evaluator.">
      {error && <ErrorMessage error={error} />}
      <div className="flex flex-col gap-2">
        {drafts.map((draft, index) => (
          <EvaluatorForm
            key={draft.id}
            draft={draft}
            evaluator={evaluators.find(({ key }) => key === draft.key)}
            path={`/evaluators/${index}`}
            serverErrors={errorsUnder(serverErrors, `/evaluators/${index}`)}
            onChange={(next) => onChange(drafts.map((other) => (other.id === draft.id ? next : other)))}
            onRemove={() => onChange(drafts.filter((other) => other.id !== draft.id))}
          />
        ))}
      </div>
      {adding ? (
        <EvaluatorPicker
          evaluators={evaluators}
          onPick={add}
          {...(drafts.length > 0 ? { onClose: () => setAdding(false) } : {})}
        />
      ) : (
        <Button size="small" className="mt-2" onClick={() => setAdding(true)}>
          <Plus aria-hidden className="size-3.5" />
          Add an evaluator
        </Button>
      )}
      <FieldErrors errors={serverErrors.filter(({ path }) => path === '/evaluators')} />
    </FormSection>
  );
}

const NEEDS_TEXT: Readonly<Record<string, string>> = {
  expected: 'needs expected answer',
  chat: 'chat only',
  tools: 'needs tool calls',
  events: 'needs events',
  usage: 'needs token usage',
};

function EvaluatorPicker({
  evaluators,
  onPick,
  onClose,
}: {
  evaluators: readonly Evaluator[];
  onPick: (evaluator: Evaluator) => void;
  onClose?: () => void;
}): ReactNode {
  const [text, setText] = useState('');
  const visible = text.trim()
    ? searchByTitle(
        text,
        evaluators.map((item) => ({ title: `${item.title} ${item.key}`, more: item.description, item })),
      ).map(({ item }) => item)
    : evaluators.toSorted((one, other) => Number(other.origin === 'author') - Number(one.origin === 'author'));
  return (
    <div className="mt-2 rounded-xl border">
      <div className="flex items-center gap-1 border-b p-1.5">
        <TextField
          {...(onClose ? { ref: focusRef } : {})}
          type="search"
          aria-label="Find an evaluator"
          placeholder="Find an evaluator"
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && visible[0]) {
              event.preventDefault();
              onPick(visible[0]);
            }
          }}
        />
        {onClose && (
          <IconButton label="Close list" size="small" onClick={onClose}>
            <X />
          </IconButton>
        )}
      </div>
      <ul aria-label="Available evaluators" className="max-h-56 overflow-y-auto p-1">
        {visible.map((evaluator) => (
          <li key={evaluator.key}>
            <button
              type="button"
              onClick={() => onPick(evaluator)}
              className="flex w-full items-baseline gap-2 rounded-lg px-2 py-1 text-left hover:bg-sunken"
            >
              <span className="w-44 shrink-0 font-medium wrap-anywhere max-sm:w-32">{evaluator.title}</span>
              <span className="min-w-0 grow truncate text-[13px] text-muted" title={evaluator.description}>
                <ProseWithCode text={evaluator.description} />
              </span>
              <span className="flex shrink-0 gap-1 max-sm:hidden">
                {evaluator.origin === 'author' && <Badge tone="accent">Custom</Badge>}
                {evaluator.needs.map((requirement) => (
                  <Badge key={requirement}>{NEEDS_TEXT[requirement] ?? requirement}</Badge>
                ))}
              </span>
            </button>
          </li>
        ))}
        {evaluators.length > 0 && visible.length === 0 && (
          <li className="px-2 py-3 text-center text-muted">No matching evaluators.</li>
        )}
      </ul>
    </div>
  );
}

interface FormProps {
  draft: EvaluatorDraft;
  evaluator: Evaluator | undefined;
  /** JSON pointer of the value. */
  path: string;
  onChange: (draft: EvaluatorDraft) => void;
  onRemove: () => void;
  serverErrors: readonly FieldError[];
}

function EvaluatorForm({ draft, evaluator, path, onChange, onRemove, serverErrors }: FormProps): ReactNode {
  const schema = simplifySchema(evaluator?.schema ?? {});
  const errors = errorsUnder(serverErrors, '/parameters');
  const title = evaluator?.title ?? draft.key;
  const setParameters = (parameters: Record<string, unknown>) => onChange({ ...draft, parameters });
  const formProps = { schema, value: draft.parameters, errors, onChange: setParameters };
  const specific = specificParameters(schema);
  const common = commonParameters(schema);
  const hasError = common.some((name) => errorsUnder(errors, `/${name}`).length > 0);
  const changedCount = common.filter((name) => Object.hasOwn(draft.parameters, name)).length;
  return (
    <div
      role="group"
      aria-label={`Evaluator ${draft.name || title}`}
      data-at={path}
      className="relative min-w-0 rounded-xl border px-3 py-2.5"
    >
      <div className="flex flex-wrap items-start justify-between gap-x-4 gap-y-1 pr-8">
        <div className="min-w-0 grow basis-60">
          <p className="font-medium">{title}</p>
          {evaluator && (
            <p className="text-[13px] text-muted">
              <ProseWithCode text={evaluator.description} />
            </p>
          )}
        </div>
        <div className="w-48">
          <LabeledField label="Name">
            <TextField
              dir="auto"
              maxLength={200}
              aria-invalid={errorsUnder(serverErrors, '/name').length > 0}
              placeholder={draft.key}
              value={draft.name}
              onChange={(event) => onChange({ ...draft, name: event.target.value })}
            />
          </LabeledField>
        </div>
      </div>
      <IconButton
        label={`Remove ${draft.name || title}`}
        size="small"
        className="absolute top-2 right-2"
        onClick={onRemove}
      >
        <X />
      </IconButton>
      {specific.length > 0 && (
        <div className="mt-2">
          <SchemaForm {...formProps} excluded={['name', ...COMMON_PARAMETERS]} />
        </div>
      )}
      <div className="mt-2">
        {common.length > 0 && (
          <CollapsibleSection
            key={String(hasError)}
            title={changedCount ? `More settings, ${changedCount} changed` : 'More settings'}
            open={changedCount > 0 || hasError}
          >
            <div className="pt-1 pl-5">
              <SchemaForm {...formProps} excluded={['name', ...specific]} />
            </div>
          </CollapsibleSection>
        )}
        <CollapsibleSection title="Try it">
          <EvaluatorTryout
            evaluator={draft.key}
            parameters={draft.parameters}
            needsExpected={evaluator?.needs.includes('expected') ?? false}
          />
        </CollapsibleSection>
      </div>
      <FieldErrors errors={serverErrors.filter((error) => !error.path.startsWith('/parameters/'))} />
    </div>
  );
}

/** Parse text that looks like a JSON object or list; anything else is text. */
function parseAnswer(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** Score an answer that the user types. */
export function EvaluatorTryout({
  evaluator,
  parameters,
  needsExpected,
}: {
  evaluator: string;
  parameters: ParameterValues;
  needsExpected: boolean;
}): ReactNode {
  const [answer, setAnswer] = useState('');
  const [expected, setExpected] = useState('');
  const [isChat, setIsChat] = useState(true);
  const tryout = useMutation({
    mutationFn: () =>
      api('post', '/api/evaluators/{key}/try', {
        path: { key: evaluator },
        // The generated body type allows no keys in free-form objects; send what was entered.
        body: {
          parameters: parameters as Record<string, never>,
          case: {
            output: parseAnswer(answer),
            flags: { is_chat: isChat },
            ...(expected === '' ? {} : { expected: parseAnswer(expected) }),
          },
        },
      }),
  });
  return (
    <div className="flex flex-col gap-2 pt-1 pl-5">
      <div className="grid gap-2 sm:grid-cols-2">
        <LabeledField label="Answer" hint="text, or a message as JSON">
          <TextArea dir="auto" rows={2} value={answer} onChange={(event) => setAnswer(event.target.value)} />
        </LabeledField>
        <LabeledField label="Expected" hint={needsExpected ? '' : 'optional'}>
          <TextArea dir="auto" rows={2} value={expected} onChange={(event) => setExpected(event.target.value)} />
        </LabeledField>
      </div>
      <div className="flex items-center gap-2">
        <Button size="small" disabled={tryout.isPending} onClick={() => tryout.mutate()}>
          Try
        </Button>
        <span className="grow" />
        <span className="text-[13px] text-muted">Answer from a chat</span>
        <Switch checked={isChat} onChange={setIsChat} label="Answer from a chat" />
      </div>
      {tryout.error && <ErrorMessage error={tryout.error} />}
      {tryout.data &&
        [tryout.data, ...(tryout.data.more ?? [])].map((score) => <ScoreCard key={score.evaluator} score={score} />)}
    </div>
  );
}

/** Parameters of nearly all evaluators, shown after the specific ones. */
export const COMMON_PARAMETERS = ['target', 'stringify', 'expected_from', 'case_sensitive', 'threshold'];

/** Simplify a schema for the form: a text or a list of texts becomes a list of texts. */
export function simplifySchema(schema: JsonSchema): JsonSchema {
  if (!isObject(schema['properties'])) return schema;
  return {
    ...schema,
    properties: Object.fromEntries(
      Object.entries(schema['properties']).map(([name, property]) => [name, listSchema(property)]),
    ),
  };
}

function listSchema(property: unknown): unknown {
  if (!isObject(property) || !Array.isArray(property['anyOf'])) return property;
  const { anyOf, ...otherKeys } = property;
  const kinds = anyOf.filter(isObject);
  const listKind = kinds.find(
    (kind) => kind['type'] === 'array' && isObject(kind['items']) && kind['items']['type'] === 'string',
  );
  const others = kinds.filter((kind) => kind !== listKind && kind['type'] !== 'string');
  if (!listKind || others.some((kind) => kind['type'] !== 'null')) return property;
  return others.length > 0 ? { ...otherKeys, anyOf: [listKind, ...others] } : { ...otherKeys, ...listKind };
}

export const specificParameters = (schema: JsonSchema): string[] =>
  isObject(schema['properties'])
    ? Object.keys(schema['properties']).filter((name) => name !== 'name' && !COMMON_PARAMETERS.includes(name))
    : [];

export const commonParameters = (schema: JsonSchema): string[] =>
  isObject(schema['properties'])
    ? COMMON_PARAMETERS.filter((name) => Object.hasOwn(schema['properties'] as object, name))
    : [];
