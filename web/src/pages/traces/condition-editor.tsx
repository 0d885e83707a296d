/** Editor and chips of filter conditions. */
import { X } from 'lucide-react';
import { Popover } from 'radix-ui';
import { useId, useState, type FormEvent, type ReactNode } from 'react';
import { Button } from '@/components/button';
import { Select, TextField, SegmentedControl } from '@/components/form-fields';
import { safeExact, safeProse } from '@/lib/safe-text';
import {
  FIELDS,
  conditionField,
  fieldOps,
  takesList,
  takesValue,
  opLabel,
  type ConditionField,
  type Op,
  fromInputValue,
  toInputValue,
  conditionText,
  parseNumber,
  type Condition,
  type TraceQuery,
} from './trace-query';

interface ConditionEditorProps {
  trigger: ReactNode;
  condition?: Condition;
  /** Known values by field. */
  seenValues: Readonly<Record<string, readonly string[]>>;
  onDone: (condition: Condition) => void;
}

const FIRST_FIELD: Condition = { of: 'field', name: 'status', op: 'eq', value: 'error' };
/** Option value for attributes; no field has this name. */
const ATTRIBUTE = '@';

export function ConditionEditor({
  trigger,
  condition = FIRST_FIELD,
  seenValues,
  onDone,
}: ConditionEditorProps): ReactNode {
  const [open, setOpen] = useState(false);
  return (
    <Popover.Root open={open} onOpenChange={setOpen}>
      <Popover.Trigger asChild>{trigger}</Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          aria-label="Filter"
          align="start"
          sideOffset={6}
          collisionPadding={8}
          className="z-50 w-72 rounded-xl border bg-raised p-3 shadow-float"
        >
          <ConditionForm
            initial={condition}
            seenValues={seenValues}
            onDone={(done) => {
              setOpen(false);
              onDone(done);
            }}
          />
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

function ConditionForm({
  initial,
  seenValues,
  onDone,
}: {
  initial: Condition;
  seenValues: ConditionEditorProps['seenValues'];
  onDone: ConditionEditorProps['onDone'];
}): ReactNode {
  const [{ of, name, op, value }, setCondition] = useState(initial);
  const field = of === 'field' ? conditionField(name) : undefined;
  const change = (patch: Partial<Condition>) => setCondition((before) => ({ ...before, ...patch }));
  const choose = (fieldName: string) => {
    if (fieldName === ATTRIBUTE) return change({ of: 'attribute', name: '', op: 'eq', value: '' });
    const next = conditionField(fieldName);
    const [defaultOp = 'eq'] = fieldOps(next);
    return change({ of: 'field', name: fieldName, op: defaultOp, value: next?.choices?.[0] ?? '' });
  };
  const isInvalid =
    name.trim() === '' ||
    (takesValue(op) && value.trim() === '') ||
    (field?.type === 'number' && takesValue(op) && parseNumber(value) === undefined);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!isInvalid) onDone({ of, name: name.trim(), op, value: takesValue(op) ? value : '' });
  };
  return (
    <form onSubmit={submit} className="flex flex-col gap-2">
      <Select
        aria-label="Field"
        value={of === 'attribute' ? ATTRIBUTE : name}
        onChange={(event) => choose(event.target.value)}
      >
        {FIELDS.map((choice) => (
          <option key={choice.name} value={choice.name}>
            {choice.label}
          </option>
        ))}
        {of === 'field' && !field && <option value={name}>{name}</option>}
        <option value={ATTRIBUTE}>Attribute…</option>
      </Select>
      {of === 'attribute' && (
        <TextField
          aria-label="Attribute"
          placeholder="http.route"
          maxLength={512}
          className="font-mono text-[13px]"
          value={name}
          onChange={(event) => change({ name: event.target.value })}
        />
      )}
      <Select aria-label="Comparison" value={op} onChange={(event) => change({ op: event.target.value as Op })}>
        {fieldOps(field).map((option) => (
          <option key={option} value={option}>
            {opLabel(option, field?.type)}
          </option>
        ))}
      </Select>
      {takesValue(op) && (
        <ValueInput
          field={field}
          op={op}
          value={value}
          seenValues={seenValues[of === 'field' ? name : ''] ?? []}
          onChange={(next) => change({ value: next })}
        />
      )}
      <Button type="submit" variant="main" size="small" disabled={isInvalid}>
        Apply
      </Button>
    </form>
  );
}

interface ValueInputProps {
  field: ConditionField | undefined;
  op: Op;
  value: string;
  seenValues: readonly string[];
  onChange: (value: string) => void;
}

function ValueInput({ field, op, value, seenValues, onChange }: ValueInputProps): ReactNode {
  const datalistId = useId();
  if (field?.choices && !takesList(op)) {
    return (
      <Select aria-label="Value" value={value} onChange={(event) => onChange(event.target.value)}>
        {(field.choices.includes(value) ? field.choices : [value, ...field.choices]).map((choice) => (
          <option key={choice}>{choice}</option>
        ))}
      </Select>
    );
  }
  if (field?.type === 'time') {
    return (
      <TextField
        aria-label="Value"
        type="datetime-local"
        value={toInputValue(value)}
        onChange={(event) => onChange(fromInputValue(event.target.value) ?? '')}
      />
    );
  }
  const options = field?.choices ?? seenValues;
  return (
    <>
      <TextField
        aria-label="Value"
        dir="auto"
        list={datalistId}
        maxLength={2000}
        autoComplete="off"
        {...(field?.type === 'number' ? { inputMode: 'decimal' as const } : {})}
        placeholder={takesList(op) ? 'value 1, value 2' : (field?.unit ?? 'Value')}
        value={value}
        onChange={(event) => onChange(event.target.value)}
      />
      <datalist id={datalistId}>
        {options.map((option) => (
          <option key={option}>{option}</option>
        ))}
      </datalist>
    </>
  );
}

interface ConditionChipsProps {
  query: TraceQuery;
  seenValues: Readonly<Record<string, readonly string[]>>;
  onChange: (query: TraceQuery) => void;
}

const JOIN_LABELS = { all: 'All of', any: 'Any of' };

/** Active conditions as chips: click to edit, cross to remove. */
export function ConditionChips({ query, seenValues, onChange }: ConditionChipsProps): ReactNode {
  const { conditions, any } = query;
  if (conditions.length === 0) return null;
  const setConditions = (next: readonly Condition[]) => onChange({ ...query, conditions: next });
  return (
    <div role="group" aria-label="Filters" className="flex flex-wrap items-center gap-1.5 px-4 pb-2.5">
      {conditions.length > 1 && (
        <SegmentedControl
          label="Match"
          options={JOIN_LABELS}
          value={any ? 'any' : 'all'}
          onChange={(value) => onChange({ ...query, any: value === 'any' })}
        />
      )}
      {conditions.map((condition, index) => (
        <ConditionChip
          // oxlint-disable-next-line react/no-array-index-key -- the same condition may be there twice
          key={`${index} ${condition.of} ${condition.name}`}
          condition={condition}
          seenValues={seenValues}
          onChange={(next) => setConditions(conditions.with(index, next))}
          onRemove={() => setConditions(conditions.toSpliced(index, 1))}
        />
      ))}
      <Button size="small" variant="quiet" onClick={() => setConditions([])}>
        Clear
      </Button>
    </div>
  );
}

interface ConditionChipProps {
  condition: Condition;
  seenValues: ConditionChipsProps['seenValues'];
  onChange: (condition: Condition) => void;
  onRemove: () => void;
}

function ConditionChip({ condition, seenValues, onChange, onRemove }: ConditionChipProps): ReactNode {
  const { subject, verb, value } = conditionText(condition);
  const label = [subject, verb, value].filter(Boolean).join(' ');
  return (
    <span className="inline-flex h-7 max-w-full min-w-0 items-center rounded-lg bg-accent-soft text-[13px]">
      <ConditionEditor
        condition={condition}
        seenValues={seenValues}
        onDone={onChange}
        trigger={
          <button
            type="button"
            title={safeExact(label)}
            className="flex h-full min-w-0 items-center gap-1 rounded-l-lg pl-2.5 hover:text-accent"
          >
            <span className="max-w-40 truncate text-muted" dir="auto">
              {safeProse(subject)}
            </span>
            <span className="shrink-0 text-muted">{verb}</span>
            {value && (
              <span className="max-w-60 truncate font-medium" dir="auto">
                {safeProse(value)}
              </span>
            )}
          </button>
        }
      />
      <button
        type="button"
        aria-label={`Remove the filter ${safeProse(label)}`}
        onClick={onRemove}
        className="flex h-full shrink-0 items-center rounded-r-lg px-1.5 text-faint hover:text-ink"
      >
        <X className="size-3.5" />
      </button>
    </span>
  );
}
