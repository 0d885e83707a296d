/**
 * Default mapping of test set columns, and the form section that changes it. Same rules as
 * evaluation/plan/column_map.py; both share their test cases.
 */
import { useQueries } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { Workflow } from '@/api/client';
import { workflowQuery } from '@/api/queries';
import { Button } from '@/components/button';
import { CollapsibleSection } from '@/components/collapsible';
import { Select, LabeledField, FieldErrors } from '@/components/form-fields';
import { isObject } from '@/components/forms/json-schema';
import type { FieldError } from '@/components/forms/values';
import { type MapDraft, errorsUnder, type VariantDraft } from './draft';
import type { TestsetColumn } from './queries';

/** Usual names of the expected answer, in order of preference. */
const EXPECTED_NAMES = [
  'expected',
  'expected_output',
  'correct_answer',
  'ground_truth',
  'reference',
  'answer',
  'output',
];
/** Column kinds that can be the messages of a chat. */
const MESSAGE_KINDS: ReadonlySet<string> = new Set(['chat', 'message', 'text', 'number', 'boolean', 'mixed']);

/** Usual names of a text column that holds what the user says; as in evaluation/plan/column_map.py. */
const SPOKEN_COLUMN_NAMES = [
  'question',
  'input',
  'prompt',
  'query',
  'message',
  'user_message',
  'user_input',
  'text',
  'q',
  'user',
];
const ANSWER_NAMES: ReadonlySet<string> = new Set([...EXPECTED_NAMES, 'response', 'completion']);
/** With a column of these kinds no text column is guessed. */
const CONVERSATION_KINDS: ReadonlySet<string> = new Set(['chat', 'message', 'script']);

export interface Mapping {
  messages: string | null;
  /** Messages before the question. */
  history: string | null;
  script: string | null;
  /** What the user says in rows without messages and script. */
  spoken: string | null;
  expected: string | null;
  /** Columns with the expected answer in rows where `expected` is empty. */
  expectedFallbacks: readonly string[];
  /** Column by input name. */
  inputs: Readonly<Record<string, string>>;
}

type WorkflowSchemas = Pick<Workflow, 'is_chat' | 'schemas'>;

/** Names of a workflow's inputs, without the messages of a chat. */
export function inputNames({ is_chat: isChat, schemas }: WorkflowSchemas): string[] {
  const properties = propertiesOf(schemas.inputs);
  return Object.keys(properties).filter(
    (name) => !(isChat && (name === 'messages' || isMessagesSchema(properties[name]))),
  );
}

export const canHoldMessages = ({ kind }: TestsetColumn): boolean => MESSAGE_KINDS.has(kind);

/** The mapping for a workflow on top of the explicit choices; `answers` are columns that hold answers. */
export function defaultMapping(
  columns: readonly TestsetColumn[],
  workflow: WorkflowSchemas | null,
  answers: readonly string[] = [],
  overrides: MapDraft = {},
): Mapping {
  const names = columns.map(({ name }) => name);
  const isChat = workflow?.is_chat ?? true;
  const scripts = columns.filter(({ kind }) => kind === 'script').map(({ name }) => name);
  const script = isChat ? (scripts.includes('script') ? 'script' : onlyName(scripts)) : null;
  const properties = workflow ? propertiesOf(workflow.schemas.inputs) : {};
  const otherRoles = new Set([...Object.values(overrides.inputs ?? {}), ...answers, ...Object.keys(properties)]);
  const [expected = null, ...detectedFallbacks] = findExpectedColumns(
    names,
    new Set([overrides.messages, overrides.history, overrides.script, ...otherRoles]),
  );
  const expectedFallbacks = overrides.expected === undefined ? detectedFallbacks : [];
  const references = {
    expected: chosenOrDefault(overrides.expected, expected),
    script: chosenOrDefault(overrides.script, script),
  };
  const mappedColumns = new Set([references.expected, ...expectedFallbacks, overrides.history, ...otherRoles]);
  const detected = isChat ? findMessagesColumn(columns, properties) : null;
  const messages = detected ?? (isChat && references.script === null ? findSpokenColumn(columns, mappedColumns) : null);
  const isPayload =
    chosenOrDefault(overrides.messages, messages) === 'content' &&
    names.includes('history') &&
    !Object.hasOwn(properties, 'history');
  const history = isPayload ? 'history' : null;
  const acceptsAny = workflow?.schemas.inputs?.['additionalProperties'] !== false;
  const usedNames = new Set([
    references.expected,
    ...expectedFallbacks,
    references.script,
    chosenOrDefault(overrides.messages, messages),
    chosenOrDefault(overrides.history, history),
    ...answers.filter((name) => !Object.hasOwn(properties, name)),
  ]);
  const freeNames = names.filter((name) => !usedNames.has(name) && (Object.hasOwn(properties, name) || acceptsAny));
  const chatColumns =
    overrides.messages === undefined && messages === detected
      ? columns.filter(({ name }) => name === messages || name === references.script)
      : [];
  const hasGaps = chatColumns.length > 0 && chatColumns.every(({ missing, nulls }) => missing + nulls > 0);
  const spoken = hasGaps ? (columnsWithUsualName(columns, new Set([...mappedColumns, ...usedNames]))[0] ?? null) : null;
  return {
    messages,
    history,
    script,
    spoken,
    expected,
    expectedFallbacks,
    inputs: Object.fromEntries(freeNames.map((name) => [name, name])),
  };
}

/** Columns named like an expected answer, the preferred one first, except those with another role. */
const findExpectedColumns = (
  names: readonly string[],
  otherRoles: ReadonlySet<string | null | undefined>,
): readonly string[] =>
  EXPECTED_NAMES.flatMap((usualName) =>
    names.filter((name) => name.toLowerCase() === usualName && !otherRoles.has(name)),
  );

/** An explicit choice wins, even if it is null. */
export const chosenOrDefault = (choice: string | null | undefined, fallback: string | null): string | null =>
  choice === undefined ? fallback : choice;

function findMessagesColumn(
  columns: readonly TestsetColumn[],
  properties: Readonly<Record<string, unknown>>,
): string | null {
  const messageInputs = Object.keys(properties).filter((name) => isMessagesSchema(properties[name]));
  const byName = [...messageInputs, 'messages'].find((name) => columns.some((column) => column.name === name)) ?? null;
  // As in a service's payload: the only conversation column may be the history.
  const content =
    columns.some((column) => column.name === 'content' && canHoldMessages(column)) &&
    !Object.hasOwn(properties, 'content')
      ? 'content'
      : null;
  return byName ?? content ?? onlyName(columns.filter(({ kind }) => kind === 'chat').map(({ name }) => name));
}

/**
 * The text column with a usual name, else the only one that is neither used nor named like an answer. Without any, a
 * column of numbers with a usual name.
 */
function findSpokenColumn(
  columns: readonly TestsetColumn[],
  used: ReadonlySet<string | null | undefined>,
): string | null {
  if (columns.some(({ kind }) => CONVERSATION_KINDS.has(kind))) return null;
  const texts = columnsOfKind('text', columns, used).filter((name) => !ANSWER_NAMES.has(name.toLowerCase()));
  return (
    columnsWithUsualName(columns, used)[0] ??
    onlyName(texts) ??
    (texts.length === 0 ? (columnsWithUsualName(columns, used, 'number')[0] ?? null) : null)
  );
}

/** Text columns with a usual name, most likely first. */
function columnsWithUsualName(
  columns: readonly TestsetColumn[],
  used: ReadonlySet<string | null | undefined>,
  kind: 'text' | 'number' = 'text',
): string[] {
  const texts = columnsOfKind(kind, columns, used);
  return SPOKEN_COLUMN_NAMES.flatMap((usualName) => texts.filter((name) => name.toLowerCase() === usualName));
}

const columnsOfKind = (
  wanted: 'text' | 'number',
  columns: readonly TestsetColumn[],
  used: ReadonlySet<string | null | undefined>,
): string[] => columns.filter(({ name, kind }) => kind === wanted && !used.has(name)).map(({ name }) => name);

const onlyName = (names: readonly string[]): string | null => (names.length === 1 ? (names[0] ?? null) : null);

function propertiesOf(schema: Readonly<Record<string, unknown>> | undefined): Record<string, unknown> {
  return isObject(schema?.['properties']) ? schema['properties'] : {};
}

const isMessagesSchema = (schema: unknown): boolean => isObject(schema) && schema['x-ag-type-ref'] === 'messages';

interface Props {
  map: MapDraft;
  columns: readonly TestsetColumn[];
  variants: readonly VariantDraft[];
  onChange: (map: MapDraft) => void;
  errors: readonly FieldError[];
}

/** The mapping in one line. `isText`: whether the messages column holds the user's text; null without a chat. */
function mappingSummary(map: MapDraft, defaults: Mapping, isText: boolean | null): string {
  const messages = chosenOrDefault(map.messages, defaults.messages);
  const expected = chosenOrDefault(map.expected, defaults.expected);
  const inputs = Object.values(map.inputs ?? defaults.inputs);
  return [
    isText !== null && `${isText ? 'user message' : 'messages'} ← ${messages ?? 'none'}`,
    mappingText('history', chosenOrDefault(map.history, defaults.history)),
    mappingText('script', chosenOrDefault(map.script, defaults.script)),
    mappingText('fallback', defaults.spoken),
    `expected ← ${[expected ?? 'none', ...defaults.expectedFallbacks].join(' or ')}`,
    inputs.length > 0 && `inputs ← ${inputs.join(', ')}`,
  ]
    .filter(Boolean)
    .join(' · ');
}

/** Column mapping of a new evaluation. Unchanged entries show the default. */
export function MappingSection({ map, columns, variants, onChange, errors }: Props): ReactNode {
  const names = workflowNames(variants);
  const workflows = useQueries({
    queries: names.map((name) => workflowQuery(name)),
    combine: (results) => results.flatMap(({ data }) => (data ? [data] : [])),
  });
  const answers = variants.flatMap(({ kind, column }) => (kind === 'column' ? [column] : []));
  const defaults = defaultMapping(
    columns,
    workflows.find((workflow) => workflow.is_chat) ?? workflows[0] ?? null,
    answers,
    map,
  );
  const messagesColumn = chosenOrDefault(map.messages, defaults.messages);
  const isText = columns.some(({ name, kind }) => name === messagesColumn && kind === 'text');
  const isChat = workflows.length === 0 || workflows.some((workflow) => workflow.is_chat);
  const hint = defaults.spoken !== null ? `fallback: ${defaults.spoken}` : isText ? 'user message' : null;
  const inputs = [
    ...new Set([...workflows.flatMap(inputNames), ...Object.keys(defaults.inputs), ...Object.keys(map.inputs ?? {})]),
  ];
  const mapped = map.inputs ?? defaults.inputs;
  const mapErrors = errorsUnder(errors, '/map');
  const isChanged = Object.keys(map).length > 0;
  return (
    <div className="min-w-0" data-at="/map">
      <CollapsibleSection
        key={String(mapErrors.length > 0)}
        title="Column mapping"
        open={mapErrors.length > 0 || isChanged}
        trailing={
          <span className="min-w-0 truncate text-xs text-muted max-sm:max-w-40" dir="auto">
            {mappingSummary(map, defaults, isChat && workflows.length > 0 ? isText : null)}
          </span>
        }
      >
        <div className="grid gap-3 py-1 pl-5 sm:grid-cols-3">
          {isChat && (
            <ColumnChoice
              label="Messages"
              path="/map/messages"
              {...(hint ? { hint } : {})}
              value={map.messages}
              fallback={defaults.messages}
              columns={columns.filter(canHoldMessages)}
              onChange={(messages) => onChange(withEntry(map, 'messages', messages))}
              errors={errors}
            />
          )}
          {isChat &&
            (defaults.history !== null ||
              map.history !== undefined ||
              columns.filter(({ kind }) => kind === 'chat').length > 1) && (
              <ColumnChoice
                label="History"
                path="/map/history"
                value={map.history}
                fallback={defaults.history}
                columns={columns.filter(canHoldMessages)}
                onChange={(history) => onChange(withEntry(map, 'history', history))}
                errors={errors}
              />
            )}
          {isChat && columns.some(({ kind }) => kind === 'script' || kind === 'json' || kind === 'mixed') && (
            <ColumnChoice
              label="Script"
              path="/map/script"
              value={map.script}
              fallback={defaults.script}
              columns={columns}
              onChange={(script) => onChange(withEntry(map, 'script', script))}
              errors={errors}
            />
          )}
          <ColumnChoice
            label="Expected"
            path="/map/expected"
            {...(defaults.expectedFallbacks.length > 0
              ? { hint: `fallback: ${defaults.expectedFallbacks.join(', ')}` }
              : {})}
            value={map.expected}
            fallback={defaults.expected}
            columns={columns}
            onChange={(expected) => onChange(withEntry(map, 'expected', expected))}
            errors={errors}
          />
        </div>
        {inputs.length > 0 && (
          <InputChoices
            map={map}
            names={inputs}
            mapped={mapped}
            columns={columns}
            onChange={onChange}
            errors={errors}
          />
        )}
      </CollapsibleSection>
    </div>
  );
}

const workflowNames = (variants: readonly VariantDraft[]): string[] => [
  ...new Set(variants.flatMap(({ kind, workflow }) => (kind === 'workflow' && workflow ? [workflow] : []))),
];

const mappingText = (target: string, column: string | null): string | null =>
  column === null ? null : `${target} ← ${column}`;

interface InputChoicesProps extends Pick<Props, 'map' | 'columns' | 'onChange' | 'errors'> {
  names: readonly string[];
  mapped: Readonly<Record<string, string>>;
}

function InputChoices({ map, names, mapped, columns, onChange, errors }: InputChoicesProps): ReactNode {
  const setInput = (name: string, column: string) => {
    const { [name]: _, ...others } = mapped;
    onChange({ ...map, inputs: column ? { ...others, [name]: column } : others });
  };
  return (
    <div className="py-1 pl-5">
      <div className="flex items-center gap-2">
        <h4 className="text-[13px] font-medium text-muted">Inputs</h4>
        {map.inputs !== undefined && (
          <Button size="small" variant="quiet" onClick={() => onChange(withEntry(map, 'inputs', undefined))}>
            Reset mapping
          </Button>
        )}
      </div>
      <div className="grid gap-3 sm:grid-cols-3">
        {names.map((name) => (
          <div key={name} className="min-w-0" data-at={inputPointer(name)}>
            <LabeledField label={name}>
              <Select
                value={mapped[name] ?? ''}
                aria-invalid={errorsUnder(errors, inputPointer(name)).length > 0}
                onChange={(event) => setInput(name, event.target.value)}
              >
                <option value="">None</option>
                {columns.map((column) => (
                  <option key={column.name} value={column.name}>
                    {column.name}
                  </option>
                ))}
              </Select>
            </LabeledField>
            <FieldErrors errors={errorsUnder(errors, inputPointer(name))} />
          </div>
        ))}
      </div>
    </div>
  );
}

const inputPointer = (name: string): string => `/map/inputs/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;

function withEntry<N extends keyof MapDraft>(map: MapDraft, name: N, value: MapDraft[N] | undefined): MapDraft {
  const { [name]: _, ...others } = map;
  return value === undefined ? others : { ...others, [name]: value };
}

interface ColumnChoiceProps {
  label: string;
  hint?: string;
  value: string | null | undefined;
  fallback: string | null;
  /** JSON pointer of the value. */
  path: string;
  columns: readonly TestsetColumn[];
  onChange: (value: string | null | undefined) => void;
  errors: readonly FieldError[];
}

/** Options are numbered, because a column's name can be anything, even empty. */
function ColumnChoice({ label, hint, path, value, fallback, columns, onChange, errors }: ColumnChoiceProps): ReactNode {
  const index = columns.findIndex(({ name }) => name === value);
  const fieldErrors = errorsUnder(errors, path);
  const selectedKey = value === undefined ? 'auto' : value === null ? 'none' : String(index);
  return (
    <div className="min-w-0" data-at={path}>
      <LabeledField label={label} {...(hint ? { hint } : {})}>
        <Select
          value={selectedKey}
          aria-invalid={fieldErrors.length > 0}
          onChange={({ target }) =>
            onChange(
              target.value === 'auto'
                ? undefined
                : target.value === 'none'
                  ? null
                  : (columns[Number(target.value)]?.name ?? null),
            )
          }
        >
          <option value="auto">{fallback === null ? 'None detected' : `${fallback} (detected)`}</option>
          <option value="none">None</option>
          {columns.map(({ name, kind }, columnIndex) => (
            <option key={name} value={String(columnIndex)}>
              {name} ({kind})
            </option>
          ))}
        </Select>
      </LabeledField>
      <FieldErrors errors={fieldErrors} />
    </div>
  );
}
