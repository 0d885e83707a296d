/** A condition as a person reads it. */
import type { Condition } from './asked';
import { fieldOf, takesValue, wordOf } from './fields';
import { brief } from './local-time';

export interface Words {
  subject: string;
  verb: string;
  value: string;
}

export function wordsOf({ of, name, op, value }: Condition): Words {
  const field = of === 'field' ? fieldOf(name) : undefined;
  const shown = field?.type === 'time' && !Number.isNaN(Date.parse(value)) ? brief(value) : value;
  return {
    subject: field?.label ?? name,
    verb: wordOf(op, field?.type),
    value: takesValue(op) ? [shown || '""', field?.unit].filter(Boolean).join(' ') : '',
  };
}
